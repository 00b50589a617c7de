package pgstore

import (
	"context"
	"log/slog"
	"time"
)

// Purged is what one pass of a [Purger] did, and what kept it from doing more.
type Purged struct {
	// Elsewhere: another purger is at work, and this one did nothing.
	Elsewhere bool
	// Scopes are the consumers, in the order of their names.
	Scopes []ScopePurged
	// Emptied and Dropped are partitions, by name: what is to go is emptied first and dropped when
	// no handler is in the way. Made are new ones, and MadeUntil is where the last one ends.
	Emptied, Dropped, Made []string
	MadeUntil              time.Time
	// Attempts and Leases are how many such rows were removed.
	Attempts, Leases int64

	// Snapshot is the session, where there is one, that began before something was announced and may
	// not know of it. What was announced is not removed before its statement or transaction ends.
	Snapshot *Session
	// Locked are partitions that stay for now because a transaction uses them, or, to drop them, any
	// partition; and tables that somebody has locked against everybody.
	Locked []string
	// NotOwner: the role does not own the tables, so partitions were neither emptied nor dropped nor
	// made. Marks that no partition was made for go to the default one and are deleted row by row.
	NotOwner bool
	// RestIsLarge: the default partition holds so many marks that no partitions were made out of it. Call
	// [Migrate] when handlers may stand still for as long as that takes.
	RestIsLarge bool
}

// Rows is how many marks were deleted one by one.
func (p *Purged) Rows() (n int64) {
	for i := range p.Scopes {
		n += p.Scopes[i].Rows
	}
	return n
}

// ScopePurged is what a pass did about one consumer.
type ScopePurged struct {
	Retained
	// Before is where Safe was before the pass.
	Before time.Time
	// Rows is how many of its marks were deleted one by one.
	Rows int64
}

// Session is a session of the server. Since is when its transaction began, where the role may see
// that.
type Session struct {
	PID         int32
	Application string
	Since       time.Time
}

// begin notes where the scopes stand before anything is removed.
func (w *pass) begin(scopes []scopeState) {
	w.scopes = scopes
	w.done.Scopes = make([]ScopePurged, len(scopes))
	for i := range scopes {
		w.done.Scopes[i] = ScopePurged{Retained: scopes[i].Retained, Before: w.before[scopes[i].id]}
	}
}

func (p *Purger) log(ctx context.Context, done Purged) {
	if done.Elsewhere {
		p.c.logger.LogAttrs(ctx, slog.LevelDebug, "another purger is at work")
		return
	}
	p.c.logger.LogAttrs(ctx, slog.LevelInfo, "purged",
		slog.Int64("marks", done.Rows()), slog.Int64("attempts", done.Attempts), slog.Int64("leases", done.Leases),
		slog.Any("emptied", done.Emptied), slog.Any("dropped", done.Dropped), slog.Any("made", done.Made))
	for i := range done.Scopes {
		s := &done.Scopes[i]
		attrs := []slog.Attr{slog.String("consumer", s.Consumer), slog.Time("before", s.Before), slog.Time("safe", s.Safe), slog.Int64("rows", s.Rows)}
		if len(s.Reaches) > 0 {
			r := &s.Reaches[0]
			attrs = append(attrs, slog.Group("behind", slog.String("log", r.Log), slog.Int("partition", r.Partition),
				slog.Time("newest", r.Newest), slog.Time("noted_at", r.NotedAt)))
		}
		p.c.logger.LogAttrs(ctx, slog.LevelDebug, "purged consumer", attrs...)
	}
	if s := done.Snapshot; s != nil {
		p.c.logger.LogAttrs(ctx, slog.LevelWarn, "a long transaction keeps old marks from being removed",
			slog.Int("pid", int(s.PID)), slog.String("application", s.Application), slog.Time("since", s.Since))
	}
	if len(done.Locked) > 0 {
		p.c.logger.LogAttrs(ctx, slog.LevelWarn, "partitions are in use and stay for now", slog.Any("partitions", done.Locked))
	}
	if done.NotOwner {
		p.c.logger.LogAttrs(ctx, slog.LevelWarn, "the role does not own the tables: partitions are neither dropped nor made", slog.Time("until", done.MadeUntil))
	}
	if done.RestIsLarge {
		p.c.logger.LogAttrs(ctx, slog.LevelWarn, "the default partition is large: run pgstore.Migrate at a quiet hour", slog.Time("until", done.MadeUntil))
	}
}
