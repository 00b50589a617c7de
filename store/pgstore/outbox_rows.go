package pgstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// rowReader makes rows of what the server sends, with few allocations: rows and bytes come
// out of larger pieces, which live as long as any row in them, and texts that repeat are kept.
type rowReader struct {
	texts map[string]string
	rows  []store.Row
	bytes []byte

	// Of the last row that was no event: where it is, or the snapshot.
	slot     int16
	seq      int64
	snapshot string
	// tid is where the last row of the flow lies.
	tid pgtype.TID
}

// texts are remembered up to a number: a topic per customer must not fill the memory.
const maxTexts = 4096

func newRowReader() *rowReader { return &rowReader{texts: map[string]string{}} }

// expect makes room for so many rows.
func (r *rowReader) expect(n int) {
	if len(r.rows) < n {
		r.rows = make([]store.Row, n)
	}
}

func (r *rowReader) newRow() *store.Row {
	if len(r.rows) == 0 {
		r.rows = make([]store.Row, 64)
	}
	row := &r.rows[0]
	r.rows = r.rows[1:]
	return row
}

// flow reads a row of the flow; nil where it is not an event but only a number, which is then
// in slot and seq, or the snapshot, where slot is below zero.
func (r *rowReader) flow(rows pgx.Rows) (*store.Row, error) {
	raw, ok := binaryValues(rows)
	if !ok {
		return r.scan(rows, false)
	}
	r.slot, r.seq = int16(binary.BigEndian.Uint16(raw[0])), int64(binary.BigEndian.Uint64(raw[1]))
	if raw[2] == nil {
		r.snapshot = string(raw[3])
		return nil, nil
	}
	r.tid = pgtype.TID{BlockNumber: binary.BigEndian.Uint32(raw[10]), OffsetNumber: binary.BigEndian.Uint16(raw[10][4:]), Valid: true}
	row := r.newRow()
	row.State = store.Flowing
	return row, r.event(row, raw)
}

// waiting reads a waiting row.
func (r *rowReader) waiting(rows pgx.Rows) (*store.Row, error) {
	raw, ok := binaryValues(rows)
	if !ok {
		return r.scan(rows, true)
	}
	r.slot, r.seq = int16(binary.BigEndian.Uint16(raw[0])), int64(binary.BigEndian.Uint64(raw[1]))
	row := r.newRow()
	row.State = stateOf(string(raw[10]))
	row.Attempts, row.Starts = int(int32(binary.BigEndian.Uint32(raw[11]))), int(int32(binary.BigEndian.Uint32(raw[12])))
	return row, r.event(row, raw)
}

func (r *rowReader) event(row *store.Row, raw [][]byte) (err error) {
	row.Slot, row.Seq = r.slot, r.seq
	row.ID = store.ID(raw[2])
	row.Destination, row.Topic, row.Type = r.text(raw[3]), r.text(raw[4]), r.text(raw[6])
	row.Key, row.Payload = r.keep(raw[5]), r.keep(raw[7])
	if raw[8] != nil {
		if row.Headers, err = pgsql.DecodeHeaders(r.keep(raw[8])); err != nil {
			return fmt.Errorf("event %s: %w", row.ID, err)
		}
	}
	row.WrittenAt = serverTime(int64(binary.BigEndian.Uint64(raw[9])))
	return nil
}

// binaryValues are the columns as they came, which is not binary where the pool uses the simple
// protocol or does not describe statements.
func binaryValues(rows pgx.Rows) ([][]byte, bool) {
	return rows.RawValues(), rows.FieldDescriptions()[0].Format == pgx.BinaryFormatCode
}

// scan is the way for texts.
func (r *rowReader) scan(rows pgx.Rows, waiting bool) (*store.Row, error) {
	row := r.newRow()
	row.State = store.Flowing
	var id pgtype.UUID
	var destination, topic, kind, state pgtype.Text
	var headers []byte
	var written pgtype.Timestamptz
	into := []any{&row.Slot, &row.Seq, &id, &destination, &topic, &row.Key, &kind, &row.Payload, &headers, &written}
	if waiting {
		into = append(into, &state, &row.Attempts, &row.Starts)
	} else {
		into = append(into, &r.tid)
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	r.slot, r.seq = row.Slot, row.Seq
	if !id.Valid {
		r.snapshot = destination.String
		return nil, nil
	}
	if waiting {
		row.State = stateOf(state.String)
	}
	row.ID, row.Destination, row.Topic, row.Type = id.Bytes, destination.String, topic.String, kind.String
	row.WrittenAt = written.Time
	var err error
	if row.Headers, err = pgsql.DecodeHeaders(headers); err != nil {
		return nil, fmt.Errorf("event %s: %w", row.ID, err)
	}
	return row, nil
}

// text makes a string, the same one for the same bytes.
func (r *rowReader) text(b []byte) string {
	if s, ok := r.texts[string(b)]; ok {
		return s
	}
	if len(r.texts) >= maxTexts {
		clear(r.texts)
	}
	s := string(b)
	r.texts[s] = s
	return s
}

// keep copies bytes out of the connection's buffer. Nil stays nil, empty stays empty.
func (r *rowReader) keep(b []byte) []byte {
	switch {
	case b == nil:
		return nil
	case len(b) == 0:
		return []byte{}
	case len(b) > len(r.bytes):
		if len(b) > 16<<10 {
			return append(make([]byte, 0, len(b)), b...)
		}
		r.bytes = make([]byte, 64<<10)
	}
	n := copy(r.bytes, b)
	kept := r.bytes[:n:n]
	r.bytes = r.bytes[n:]
	return kept
}

// serverTime is a timestamptz: microseconds since the year 2000.
func serverTime(us int64) time.Time {
	const year2000 = 946_684_800_000_000
	return time.UnixMicro(us + year2000)
}

func stateOf(text string) store.RowState {
	for s := store.Retrying; s <= store.Parked; s++ {
		if s.String() == text {
			return s
		}
	}
	return 0
}
