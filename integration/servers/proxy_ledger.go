package servers

import "sync"

// ledger knows which of the client's messages the server has yet to answer, and so which answer belongs to a COMMIT.
//
// The protocol answers in order. An Execute has one answer; a Query has one per statement and ends with ReadyForQuery,
// as a FunctionCall does; a Sync has ReadyForQuery. After an error in a pipeline the server ignores everything up to
// the next Sync. (An extended-protocol COPY FROM STDIN, in which the server also ignores that Sync, is not followed: no
// client that matters here does it.)
type ledger struct {
	mu       sync.Mutex
	debts    []debt
	skipping bool // The server ignores messages until a Sync that has not come yet.
}

// debt is an answer that is owed.
type debt struct {
	to      byte          // The message it answers: 'Q'uery, 'E'xecute, 'S'ync or 'F'unctionCall.
	fault   *ArmedFault   // For a COMMIT whose answer is to be lost.
	settled chan struct{} // With a fault: closed when the answer came and was not that of a successful COMMIT.
}

// settle gives the fault back, if the debt carries one.
func (d *debt) settle() {
	if d.settled == nil {
		return
	}
	d.fault.release()
	close(d.settled)
	d.fault, d.settled = nil, nil
}

// expect notes a debt; it is called before the message is sent.
func (l *ledger) expect(d debt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skipping && d.to == 'E' {
		d.settle()
		return
	}
	l.skipping = false
	l.debts = append(l.debts, d)
}

// receive takes an answer of the server off the ledger. It returns the fault that is to strike now, if the answer is
// that of a COMMIT which is to be lost.
func (l *ledger) receive(typ byte, tag string) *ArmedFault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.debts) == 0 { // The greeting; or an error in a pipeline that has not asked to execute anything yet.
		l.skipping = typ == 'E'
		return nil
	}
	d := &l.debts[0]
	switch {
	case typ == 'C' && tag == "COMMIT" && d.settled != nil:
		fault := d.fault
		d.fault, d.settled = nil, nil
		return fault
	case typ == 'Z':
		l.popExecutes() // Ignored ones.
		if len(l.debts) > 0 {
			l.pop()
		}
	case d.to == 'E' && typ == 'E':
		l.popExecutes()
		l.skipping = len(l.debts) == 0
	case d.to == 'E':
		l.pop()
	case typ == 'E':
		d.settle()
	}
	return nil
}

// forget settles all that is owed, once there is nobody left to pay it.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.debts) > 0 {
		l.pop()
	}
}

func (l *ledger) popExecutes() {
	for len(l.debts) > 0 && l.debts[0].to == 'E' {
		l.pop()
	}
}

func (l *ledger) pop() {
	l.debts[0].settle()
	l.debts = l.debts[1:]
}
