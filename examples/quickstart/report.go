package main

import (
	"encoding/json"
	"io"
	"sync"
)

// report is one line that a process writes to its standard output for the first process to
// read.
type report struct {
	// Listening is the address of the receiver, when it is ready.
	Listening string `json:",omitempty"`
	// Seen is what became of a message.
	Seen *sighting `json:",omitempty"`
	// Attempt is what a webhook request met: one of the fates.
	Attempt fate `json:",omitempty"`
}

// place is where a broker keeps a message; redelivered, it has the same one.
type place struct {
	Via       string
	Partition int
	Offset    int64
}

// sighting is one end of one message in the hands of a consumer.
type sighting struct {
	place
	ID      string // The identity by which copies are known.
	Outcome string
	// The time it was in the consumer's hands, in nanoseconds since 1970.
	Began, Ended int64
}

// reporter writes reports. Each line is on its way when the call returns, so a process that
// is killed loses at most the line that it has not written yet.
type reporter struct {
	mu sync.Mutex
	to io.Writer
}

func (r *reporter) tell(reports ...report) error {
	var lines []byte
	for _, one := range reports {
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.to.Write(lines)
	return err
}
