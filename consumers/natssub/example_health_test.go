package natssub_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/semel-dev/semel/consumers/natssub"
)

// A platform asks whether the process can work; an alarm asks whether it gets on.
func ExampleConsumer_State() {
	var c *natssub.Consumer // made with New, and running

	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/progress", func(w http.ResponseWriter, r *http.Request) {
		s, err := c.State(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%d messages behind, last progress %s ago\n", s.Lag(), time.Since(s.LastProgress).Round(time.Second))
		if s.Delivered == s.DeliveredLimit {
			fmt.Fprintln(w, "the server delivers nothing more until some of the messages that wait are settled")
		}
	})
}
