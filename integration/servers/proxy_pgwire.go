package servers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// What a client may send in place of a startup message, in the protocol's numbers.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

const (
	wireBuffer  = 64 << 10
	startupSize = 10_000 // The server's own limit for a startup message.
)

// flushMessage asks the server to send what it has so far, without ending the pipeline as a Sync would.
var flushMessage = []byte{'H', 0, 0, 0, 4}

// session carries one client's conversation with the server, message by message.
type session struct {
	*link
	proxy  *PostgresProxy
	number int

	// What the client's names stand for; used by the client's direction only.
	statements map[string]bool // Prepared statements: is it a COMMIT?
	portals    map[string]bool

	owed ledger
}

func (p *PostgresProxy) carry(l *link) {
	s := &session{link: l, proxy: p, statements: map[string]bool{}, portals: map[string]bool{}}
	l.both(s.up, s.down)
	s.owed.forget()
}

// up carries the client's messages to the server, and is where faults strike.
func (s *session) up() error {
	r := bufio.NewReaderSize(s.client, wireBuffer)
	w := bufio.NewWriterSize(gate{s.link, s.server}, wireBuffer)
	typed, err := s.startup(r, w)
	if err != nil {
		return err
	}
	if !typed {
		_, err := io.Copy(w, r)
		return errors.Join(err, w.Flush())
	}
	for {
		typ, size, err := next(r, w)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch typ {
		case 'Q', 'P', 'B', 'E', 'C': // Query, Parse, Bind, Execute, Close
			message := make([]byte, size)
			if _, err := io.ReadFull(r, message); err != nil {
				return err
			}
			if err := s.forward(w, message); err != nil {
				return err
			}
			continue
		case 'S', 'F': // Sync, FunctionCall
			s.owed.expect(debt{to: typ})
		}
		if _, err := io.CopyN(w, r, int64(size)); err != nil {
			return err
		}
	}
}

// startup carries what comes before the first typed message. It reports whether typed messages follow.
func (s *session) startup(r *bufio.Reader, w *bufio.Writer) (typed bool, err error) {
	for {
		head, err := r.Peek(8)
		if err != nil {
			return false, err
		}
		size, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if size < 8 || size > startupSize {
			return false, fmt.Errorf("a startup message of %d bytes", size)
		}
		if code == sslRequest || code == gssEncRequest {
			if _, err := r.Discard(int(size)); err != nil {
				return false, err
			}
			if _, err := (gate{s.link, s.client}).Write([]byte{'N'}); err != nil { // The server has not said anything yet.
				return false, err
			}
			continue
		}
		if _, err := io.CopyN(w, r, int64(size)); err != nil {
			return false, err
		}
		if code != cancelRequest {
			s.number = s.proxy.nextSession()
		}
		return code != cancelRequest, w.Flush()
	}
}

// forward writes a message that may have to do with a COMMIT, after what has to happen before it.
func (s *session) forward(w *bufio.Writer, message []byte) error {
	var commit bool
	var debtor debt
	body := message[5:]
	switch message[0] {
	case 'Q':
		sql, _ := cstring(body)
		commit = hasCommit(sql)
		debtor.to = 'Q'
	case 'P':
		name, rest := cstring(body)
		sql, _ := cstring(rest)
		s.statements[name] = hasCommit(sql)
	case 'B':
		portal, rest := cstring(body)
		statement, _ := cstring(rest)
		s.portals[portal] = s.statements[statement]
	case 'E':
		portal, _ := cstring(body)
		commit = s.portals[portal]
		debtor.to = 'E'
	case 'C':
		name, _ := cstring(body)
		switch {
		case strings.HasPrefix(name, "S"):
			delete(s.statements, name[1:])
		case strings.HasPrefix(name, "P"):
			delete(s.portals, name[1:])
		}
	}
	if commit {
		debtor.fault = s.proxy.claim(s.number)
	}
	switch {
	case debtor.fault == nil:
	case debtor.fault.fault == LoseCommit:
		err := w.Flush()
		debtor.fault.strike(s.link)
		return errors.Join(errFault, err)
	default:
		debtor.settled = make(chan struct{})
	}
	if debtor.to != 0 {
		s.owed.expect(debtor)
	}
	if _, err := w.Write(message); err != nil {
		return err
	}
	if debtor.settled == nil {
		return nil
	}
	if debtor.to == 'E' { // Its answer would wait in the server for the end of the pipeline, which is held back here.
		if _, err := w.Write(flushMessage); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	select {
	case <-debtor.settled:
		return nil
	case <-s.done:
		return errFault
	}
}

var errFault = errors.New("cut by a fault")

// down carries the server's messages to the client.
func (s *session) down() error {
	r := bufio.NewReaderSize(s.server, wireBuffer)
	w := bufio.NewWriterSize(gate{s.link, s.client}, wireBuffer)
	for {
		typ, size, err := next(r, w)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var tag string
		switch typ {
		case 'C': // CommandComplete
			message, err := r.Peek(min(size, 5+len("COMMIT")+1))
			if err != nil {
				return err
			}
			tag, _ = cstring(message[5:])
			fallthrough
		case 'I', 's', 'E', 'Z': // EmptyQueryResponse, PortalSuspended, ErrorResponse, ReadyForQuery
			if fault := s.owed.receive(typ, tag); fault != nil {
				err := w.Flush()
				fault.strike(s.link)
				return errors.Join(errFault, err)
			}
		}
		if _, err := io.CopyN(w, r, int64(size)); err != nil {
			return err
		}
	}
}

// next returns the type of the next message and its size with its head, which stays unread. Before it waits for more it
// sends on what was written.
func next(r *bufio.Reader, w *bufio.Writer) (typ byte, size int, err error) {
	if r.Buffered() < 5 {
		if err := w.Flush(); err != nil {
			return 0, 0, err
		}
	}
	head, err := r.Peek(5)
	if err == io.EOF && len(head) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, 0, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > 1<<30 {
		return 0, 0, fmt.Errorf("a message %q of %d bytes", head[0], length)
	}
	return head[0], int(length) + 1, nil
}

// cstring splits a zero-terminated string off the front of b.
func cstring(b []byte) (string, []byte) {
	s, rest, _ := bytes.Cut(b, []byte{0})
	return string(s), rest
}

var (
	quoted    = regexp.MustCompile(`'[^']*'|"[^"]*"|\$\w*\$(?s:.*?)\$\w*\$|--[^\n]*|/\*(?s:.*?)\*/`)
	commitSQL = regexp.MustCompile(`(?i)(?:^|;)\s*commit(?:\s+(?:work|transaction))?\s*(?:;|$)`)
)

// hasCommit reports whether one of the statements of sql is a COMMIT.
func hasCommit(sql string) bool {
	return commitSQL.MatchString(quoted.ReplaceAllString(sql, " "))
}
