package webhooksub_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/webhooksub"
)

// endless counts what is read from it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func TestABodyAboveTheLimitIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	p := applying()
	h := newHandler(t, "payments", p, webhooksub.WithMaxBody(1000))
	// Chunked, so that nothing says how long it is.
	e := new(endless)
	req := signed(t, "/", "msg_1", body, time.Now())
	req.Body, req.ContentLength = io.NopCloser(e), -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if w.Code != http.StatusRequestEntityTooLarge || e.read.Load() > 4000 {
		t.Errorf("endless: %d after %d bytes", w.Code, e.read.Load())
	}
	// It says so itself.
	e = new(endless)
	req = signed(t, "/", "msg_1", body, time.Now())
	req.Body, req.ContentLength = io.NopCloser(e), 1001
	w = httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if w.Code != http.StatusRequestEntityTooLarge || e.read.Load() != 0 {
		t.Errorf("declared: %d after %d bytes", w.Code, e.read.Load())
	}
	// Declared 100 bytes, sent many more: the connection ends the body at what was declared.
	url := serve(t, h)
	exact := strings.Repeat("x", 1000)
	if got := do(t, signed(t, url, "msg_1", exact, time.Now())); got.status != http.StatusOK {
		t.Errorf("at the limit: %+v", got)
	}
	if got := do(t, signed(t, url, "msg_2", exact+"x", time.Now())); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("above the limit: %+v", got)
	}
	if len(p.got) != 1 {
		t.Errorf("%d processed", len(p.got))
	}
}

func TestABodyThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	p := applying()
	url := serve(t, newHandler(t, "payments", p, webhooksub.WithReadLimit(200*time.Millisecond)))
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nslow"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 16)
	if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
		t.Errorf("%q, %v", answer, err)
	}
	if len(p.got) != 0 {
		t.Error("processed")
	}
}
