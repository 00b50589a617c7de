package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

// RequireKeep makes Run return an error where it would otherwise log a warning: if a topic keeps
// its records longer than the processor's store keeps marks, or if that cannot be told, for
// example because the brokers do not allow this program to describe the topic's settings.
func RequireKeep() Option {
	return optionFunc(func(c *config) { c.requireKeep = true })
}

// keeping is how long a topic keeps a record, as its settings say.
type keeping struct {
	topic     string
	retention time.Duration // negative: without limit
	compacted bool          // and not deleted by age: the last record of each key stays
}

// longerThan says how the topic keeps records longer than the time, or nothing if it does not.
func (k keeping) longerThan(keep time.Duration) string {
	switch {
	case k.compacted:
		return "for ever: it is compacted, and the last one of each key stays"
	case k.retention < 0:
		return "for ever: retention.ms is -1"
	case k.retention > keep:
		return "for " + k.retention.String()
	default:
		return ""
	}
}

// checkKeep compares how long the topics keep records with how long the store keeps marks. Whatever
// is read again after its mark was removed cannot be told from what was never done.
func (r *run) checkKeep() error {
	keeper, ok := r.processor.(dedup.Keeper)
	if !ok || keeper.Keep() >= dedup.Forever {
		return nil
	}
	keep, topics := keeper.Keep(), []keeping(nil)
	ask := func() (err error) {
		topics, err = r.look.keeping(r.intake)
		return err
	}
	if !r.conf.requireKeep {
		if err := ask(); err != nil && r.intake.Err() == nil {
			r.conf.log.Warn("whether the topics keep records longer than marks are kept cannot be told", "keep", keep, "error", err)
		}
	} else if err := r.try("read how long the topics keep records", ask); err != nil {
		return fmt.Errorf("how long the topics keep records cannot be told, and RequireKeep was passed: %w", err)
	}
	var longer error
	for _, t := range topics {
		how := t.longerThan(keep)
		if how == "" {
			continue
		}
		longer = errors.Join(longer, fmt.Errorf("topic %q keeps records %s, but marks are kept for %s", t.topic, how, keep))
		r.conf.log.Warn("the topic keeps records longer than marks are kept: those that are read again after that are quarantined, not run", "topic", t.topic, "records", how, "marks", keep)
	}
	if r.conf.requireKeep && longer != nil {
		return fmt.Errorf("RequireKeep: %w; keep marks longer, or shorten the retention", longer)
	}
	return nil
}

// keeping asks for the settings of the topics.
func (l *lookup) keeping(ctx context.Context) (all []keeping, err error) {
	req := &kafka.DescribeConfigsRequest{}
	for _, topic := range l.topics {
		req.Resources = append(req.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms", "cleanup.policy"},
		})
	}
	err = l.anyone.ask(ctx, func(ctx context.Context, client *kafka.Client) error {
		res, err := client.DescribeConfigs(ctx, req)
		if err != nil {
			return err
		}
		all = all[:0]
		for _, r := range res.Resources {
			k, err := keepingOf(r)
			if err != nil {
				return fmt.Errorf("topic %q: %w", r.ResourceName, err)
			}
			all = append(all, k)
		}
		if len(all) != len(l.topics) {
			return fmt.Errorf("the broker tells the settings of %d topics of %d", len(all), len(l.topics))
		}
		return nil
	})
	return all, err
}

func keepingOf(r kafka.DescribeConfigResponseResource) (keeping, error) {
	k, known := keeping{topic: r.ResourceName}, false
	if r.Error != nil {
		return k, r.Error
	}
	for _, e := range r.ConfigEntries {
		switch e.ConfigName {
		case "cleanup.policy":
			policies := strings.Split(e.ConfigValue, ",")
			k.compacted = slices.Contains(policies, "compact") && !slices.Contains(policies, "delete")
		case "retention.ms":
			ms, err := strconv.ParseInt(e.ConfigValue, 10, 64)
			if err != nil {
				return k, fmt.Errorf("retention.ms: %w", err)
			}
			known = true
			if k.retention = -1; ms >= 0 {
				k.retention = time.Duration(min(ms, int64(dedup.Forever/time.Millisecond))) * time.Millisecond
			}
		}
	}
	if !known && !k.compacted {
		return k, errors.New("the broker does not tell retention.ms")
	}
	return k, nil
}
