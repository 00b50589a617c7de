package kafkasub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
)

type keeper struct {
	*fake
	keep time.Duration
}

func (k keeper) Keep() time.Duration { return k.keep }

func refuseToDescribe(b *servers.Kfake) {
	b.Cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		res := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			rr := kmsg.NewDescribeConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode = r.ResourceType, r.ResourceName, int16(kafka.TopicAuthorizationFailed)
			res.Resources = append(res.Resources, rr)
		}
		return res, nil, true
	})
}

// Records that outlive their marks can come again and cannot be recognised.
func TestRetentionIsComparedWithHowLongMarksAreKept(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		settings map[string]string
		keep     time.Duration
		refuse   bool
		want     []string // of the warning; nil: none
	}{
		"shorter":              {map[string]string{"retention.ms": "86400000"}, 2 * day, false, nil},
		"equal":                {map[string]string{"retention.ms": "86400000"}, day, false, nil},
		"longer":               {map[string]string{"retention.ms": "172800000"}, day, false, []string{"for 48h0m0s", "marks=24h0m0s"}},
		"the broker's default": {nil, day, false, []string{"for 168h0m0s", "marks=24h0m0s"}},
		"without limit":        {map[string]string{"retention.ms": "-1"}, 1000 * day, false, []string{"for ever: retention.ms is -1", "marks=24000h0m0s"}},
		"marks for ever":       {map[string]string{"retention.ms": "-1"}, dedup.Forever, false, nil},
		"compacted":            {map[string]string{"cleanup.policy": "compact", "retention.ms": "1000"}, day, false, []string{"it is compacted"}},
		"compacted by age too": {map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "1000"}, day, false, nil},
		"not allowed":          {nil, day, true, []string{"cannot be told", "Topic Authorization Failed", "keep=24h0m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			deleteTopic(t, b)
			settings := map[string]string{}
			for k, v := range c.settings {
				settings[k] = v
			}
			if err := b.Cluster.CreateTopic(topic, 1, settings); err != nil {
				t.Fatal(err)
			}
			if c.refuse {
				refuseToDescribe(b)
			}
			book, log := newLogBook(t)
			p := keeper{newFake(always), c.keep}
			r := run(t, newConsumer(t, groupConfig(b), p, log))
			untilReady(t, r.Consumer)
			r.stop(t)
			if warned := book.has("level=WARN"); warned != (c.want != nil) || warned && !book.has(append(c.want, "level=WARN")...) {
				t.Errorf("warned is %t, want %q", warned, c.want)
			}
			r = run(t, newConsumer(t, groupConfig(b), p, kafkasub.RequireKeep(), kafkasub.WithStartLimit(300*time.Millisecond)))
			if c.want == nil {
				untilReady(t, r.Consumer)
				r.stop(t)
				return
			}
			if err := r.wait(t); err == nil || !strings.Contains(err.Error(), "RequireKeep") || !strings.Contains(err.Error(), c.want[0]) {
				t.Errorf("Run = %v, want an error with %q", err, c.want[0])
			}
		})
	}
}
