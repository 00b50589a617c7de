package dedup

import "github.com/semel-dev/semel/store"

// room is what a batch needs until its end and nobody else keeps. It is used again, because it is
// large: most of what a guard costs a message would be the memory for it.
type room struct {
	ids    []identified
	marks  []store.Mark
	places []store.Place // none where the store keeps no positions
}

func (g *TxGuard[TTx]) takeRoom(n int) *room {
	r, _ := g.rooms.Get().(*room)
	if r == nil || cap(r.ids) < n {
		r = &room{ids: make([]identified, n), marks: make([]store.Mark, n), places: g.places(n)}
	}
	r.ids = r.ids[:n]
	if r.places != nil {
		r.places = r.places[:n]
	}
	return r
}

// giveRoom lets the messages go.
func (g *TxGuard[TTx]) giveRoom(r *room) {
	clear(r.ids)
	clear(r.marks)
	clear(r.places)
	g.rooms.Put(r)
}

// marksOf returns the marks of the messages, complete, in a slice that is good until the next call.
func (r *room) marksOf(ids []identified) []store.Mark {
	seal(ids)
	marks := r.marks[:len(ids)]
	for i := range ids {
		marks[i] = ids[i].mark
	}
	return marks
}
