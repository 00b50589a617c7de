package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

var _ store.OutboxAdmin = (*Store)(nil)

// Filters are rare and come from people, so the statements are plain and may read the whole
// table of waiting events.
const (
	fits = `($1::uuid[] is null or w.id = any ($1)) and ($2::text = '' or w.destination = $2) and ($3::text = '' or w.aggregatetype = $3)
  and ($4::bytea is null or w.aggregateid = $4) and ($5::text = '' or w.state = $5) and ($6::timestamptz is null or w.changed_at >= $6)`

	listWaiting = `select ` + waitingColumns + `, w.reason, case when w.state = 'retry' then w.due end, w.waiting_since, w.changed_at
from {schema}.outbox_waiting w where ` + fits + ` and w.seq > $7 order by w.seq limit $8`

	chooseWaiting = `select w.slot, w.seq from {schema}.outbox_waiting w
where ` + fits + ` and w.state = any ($7::text[]) order by w.seq limit $8`

	// Whoever holds the slots writes under a lock on these rows, so it is never in the middle
	// of anything here, and notices the number.
	touchSlots = `update {schema}.outbox_slots s set changed = s.changed + 1
from (select slot from {schema}.outbox_slots where slot = any ($1::smallint[]) order by slot for update) l where s.slot = l.slot`

	retryWaiting = `update {schema}.outbox_waiting w set state = 'retry', attempts = 0, starts = 0, due = now(), changed_at = now()
from unnest($1::smallint[], $2::bigint[]) c (slot, seq)
where w.slot = c.slot and w.seq = c.seq and w.state in ('parked', 'retry')`

	discardParked = `delete from {schema}.outbox_waiting w
using unnest($1::smallint[], $2::bigint[]) c (slot, seq)
where w.slot = c.slot and w.seq = c.seq and w.state = 'parked'`

	outboxStats = `select
  (select count(*) from {schema}.outbox), (select min(created_at) from {schema}.outbox),
  count(*) filter (where w.state = 'retry'), count(*) filter (where w.state = 'behind'),
  count(*) filter (where w.state = 'held'), count(*) filter (where w.state = 'parked'), min(w.created_at),
  (select count(*) from {schema}.outbox_relays where until > now()),
  (select count(*) from {schema}.outbox_slots where owner is null or until <= now()), now()
from {schema}.outbox_waiting w`
)

func (s *Store) in(sql string) string { return strings.ReplaceAll(sql, "{schema}", s.schema) }

func filterArgs(f store.WaitingFilter) []any {
	var ids pgtype.FlatArray[pgtype.UUID]
	for _, id := range f.IDs {
		ids = append(ids, pgtype.UUID{Bytes: id, Valid: true})
	}
	state := ""
	if f.State != 0 {
		state = f.State.String()
	}
	return []any{ids, f.Destination, f.Topic, f.Key, state, pgtype.Timestamptz{Time: f.ChangedSince, Valid: !f.ChangedSince.IsZero()}}
}

// ListWaiting implements [store.OutboxAdmin].
func (s *Store) ListWaiting(ctx context.Context, f store.WaitingFilter, after int64, limit int) ([]store.WaitingEvent, error) {
	rows, _ := s.pool.Query(ctx, s.in(listWaiting), append(filterArgs(f), after, limit)...) // its error comes back from the rows
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e store.WaitingEvent, err error) {
		var id pgtype.UUID
		var headers []byte
		var state string
		var due *time.Time
		err = row.Scan(&e.Slot, &e.Seq, &id, &e.Destination, &e.Topic, &e.Key, &e.Type, &e.Payload, &headers, &e.WrittenAt,
			&state, &e.Attempts, &e.Starts, &e.Reason, &due, &e.Since, &e.Changed)
		if err != nil {
			return e, err
		}
		e.ID, e.State = id.Bytes, stateOf(state)
		if due != nil {
			e.Due = *due
		}
		e.Headers, err = pgsql.DecodeHeaders(headers)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("pgstore: list waiting events: %w", s.own(err))
	}
	return all, nil
}

// RetryWaiting implements [store.OutboxAdmin].
func (s *Store) RetryWaiting(ctx context.Context, f store.WaitingFilter, limit int) (int, error) {
	n, err := s.changeChosen(ctx, f, limit, []string{"parked", "retry"}, retryWaiting)
	if err != nil {
		return 0, fmt.Errorf("pgstore: retry waiting events: %w", s.own(err))
	}
	return n, nil
}

// DiscardParked implements [store.OutboxAdmin]. A filter without any condition is refused.
func (s *Store) DiscardParked(ctx context.Context, f store.WaitingFilter, limit int) (int, error) {
	if len(f.IDs) == 0 && f.Destination == "" && f.Topic == "" && f.Key == nil && f.ChangedSince.IsZero() {
		return 0, errors.New("pgstore: discard parked events: the filter is empty: say which, by id, destination, topic, key or time")
	}
	n, err := s.changeChosen(ctx, f, limit, []string{"parked"}, discardParked)
	if err != nil {
		return 0, fmt.Errorf("pgstore: discard parked events: %w", s.own(err))
	}
	return n, nil
}

// changeChosen locks the slots of the chosen events before it changes them.
func (s *Store) changeChosen(ctx context.Context, f store.WaitingFilter, limit int, states []string, sql string) (n int, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, s.in(chooseWaiting), append(filterArgs(f), states, limit)...) // its error comes back from the rows
		var chosen refs
		var slot int16
		var seq int64
		if _, err := pgx.ForEachRow(rows, []any{&slot, &seq}, func() error {
			chosen.slots, chosen.seqs = append(chosen.slots, slot), append(chosen.seqs, seq)
			return nil
		}); err != nil || len(chosen.seqs) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, s.in(touchSlots), chosen.slots); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, s.in(sql), chosen.slots, chosen.seqs)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

// OutboxStats implements [store.OutboxAdmin]. It counts the rows, so ask for it every few
// seconds and not more often.
func (s *Store) OutboxStats(ctx context.Context) (store.OutboxStats, error) {
	var st store.OutboxStats
	var oldest, oldestWaiting *time.Time
	var now time.Time
	err := s.pool.QueryRow(ctx, s.in(outboxStats)).Scan(&st.Flowing, &oldest, &st.Retrying, &st.Behind, &st.Held, &st.Parked,
		&oldestWaiting, &st.Relays, &st.FreeSlots, &now)
	if err != nil {
		return st, fmt.Errorf("pgstore: count the outbox: %w", s.own(err))
	}
	if oldest != nil {
		st.Oldest = now.Sub(*oldest)
	}
	if oldestWaiting != nil {
		st.OldestWaiting = now.Sub(*oldestWaiting)
	}
	return st, nil
}
