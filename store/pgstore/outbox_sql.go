package pgstore

import (
	"strconv"
	"strings"
	"sync"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// outboxStatements are the texts for one schema.
type outboxStatements struct {
	appendOne, appendMany string

	beat, extend, take, own, release, leave string

	plan, fence, lockingFence                       string
	deleteFlow, deleteFlowByKey                     string
	deleteWaiting, moveFlow, changeWaiting          string
	readFlow, readDue, readHeld, readByKey, backlog string
}

var outboxTexts sync.Map // schema → *outboxStatements

func (s *Store) outboxSQL() *outboxStatements {
	if sql, ok := outboxTexts.Load(s.schema); ok {
		return sql.(*outboxStatements)
	}
	in := strings.NewReplacer("{schema}", s.schema, "{slots}", strconv.Itoa(store.Slots),
		"{fenced}", strings.ReplaceAll(fenced, "{schema}", s.schema)).Replace
	sql, _ := outboxTexts.LoadOrStore(s.schema, &outboxStatements{
		appendOne: in(pgsql.AppendOne), appendMany: in(pgsql.AppendMany),
		beat: in(beat), extend: in(extend), take: in(take), own: in(ownSlots), release: in(releaseSlots), leave: in(leave),
		plan: planByIndex, fence: in(fence), lockingFence: in(lockingFence),
		deleteFlow: in(deleteFlow), deleteFlowByKey: in(deleteFlowByKey), deleteWaiting: in(deleteWaiting),
		moveFlow: in(moveFlow), changeWaiting: in(changeWaiting),
		readFlow: in(readFlow), readDue: in(readDue), readHeld: in(readHeld), readByKey: in(readByKey),
		backlog: in(backlog),
	})
	return sql.(*outboxStatements)
}

// The relay's statements travel in one batch, which is one transaction: the fence comes
// first and locks the slots' rows until the end, the rest sees the same owner.
const (
	// A relay prepares its statements while the outbox is empty, and the server then keeps a
	// plan that reads whole tables, which is right for empty ones and ruinous for the
	// backlog that comes later. These settings last for the transaction.
	//
	// Where it only forgets what was sent, it does not wait for the disk either: a server that
	// crashes at that moment remembers the rows, they are sent once more, and that is what
	// at least once means.
	planByIndex = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  case when $1::boolean then set_config('synchronous_commit', 'off', true) end,
  case when $2::boolean then pg_current_xact_id() is not null end`

	// Where rows go to wait, the slots are locked until the end, in order, as everywhere, so
	// that members never wait for each other in a circle: a successor must not find half of
	// it. To forget what was sent no lock is needed: whether that comes before or after the
	// change of holder, it is as true.
	fence = `select s.slot from {schema}.outbox_slots s
join unnest($1::smallint[], $2::bigint[]) h (slot, token) on h.slot = s.slot and h.token = s.token
order by s.slot`
	lockingFence = fence + ` for share of s`

	// fenced are the slots whose token is still the member's, inside of the statements that
	// write. They take it as an array, which is made once; a join would be made once per row
	// where the planner thinks that there are few.
	fenced = `select s.slot from {schema}.outbox_slots s join unnest($3::smallint[], $4::bigint[]) h (slot, token) on h.slot = s.slot and h.token = s.token`

	// Rows are deleted where they were read, which spares a look into the index, if there still is an
	// event that was settled: a rewrite of the table (VACUUM FULL) moves rows, and a promoted
	// replica has new events in the places, and under the numbers, of those that it did not
	// receive. IS TRUE keeps the planner from making a join of the look for the id, and leaves it the hash.
	//
	// Here and below no statement is a join: a join is planned by the planner's idea of how
	// many rows there are, and these can only be one look per row.
	deleteFlow = `delete from {schema}.outbox where ctid = any ($1::tid[]) and (id in (select unnest($2::uuid[]))) is true and slot = any (array({fenced}))`

	// For what was not where it was read.
	deleteFlowByKey = `delete from {schema}.outbox where ctid = any (array(
  select (select o.ctid from {schema}.outbox o where o.slot = d.slot and o.seq = d.seq and o.id = d.id)
  from unnest($1::smallint[], $2::bigint[], $5::uuid[]) d (slot, seq, id)
  where d.slot = any (array({fenced}))))`

	deleteWaiting = `delete from {schema}.outbox_waiting where ctid = any (array(
  select (select w.ctid from {schema}.outbox_waiting w where w.slot = d.slot and w.seq = d.seq and w.id = d.id)
  from unnest($1::smallint[], $2::bigint[], $5::uuid[]) d (slot, seq, id)
  where d.slot = any (array({fenced}))))`

	// A row that is not in the flow any more was moved by the same statement when its answer
	// was lost.
	moveFlow = `with goes as materialized (
  select d.slot, d.seq, d.id, d.state, d.attempts, d.starts, d.after_us, d.reason
  from unnest($1::smallint[], $2::bigint[], $5::uuid[], $6::text[], $7::int[], $8::int[], $9::bigint[], $10::text[])
    d (slot, seq, id, state, attempts, starts, after_us, reason)
  where d.slot = any (array({fenced}))
), gone as (
  delete from {schema}.outbox where ctid = any (array(
    select (select o.ctid from {schema}.outbox o where o.slot = goes.slot and o.seq = goes.seq and o.id = goes.id) from goes))
  returning slot, seq, id, destination, aggregatetype, aggregateid, type, payload, headers, created_at
)
insert into {schema}.outbox_waiting (slot, seq, id, destination, aggregatetype, aggregateid, type, payload, headers, created_at,
  state, attempts, starts, due, reason)
select gone.slot, gone.seq, gone.id, gone.destination, gone.aggregatetype, gone.aggregateid, gone.type, gone.payload, gone.headers, gone.created_at,
  goes.state, goes.attempts, goes.starts,
  case goes.state when 'retry' then now() + goes.after_us * interval '1 microsecond' else 'infinity' end, goes.reason
from gone join goes on goes.seq = gone.seq`

	changeWaiting = `update {schema}.outbox_waiting w set state = d.state, attempts = d.attempts, starts = d.starts, reason = d.reason, changed_at = now(),
  due = case d.state when 'retry' then now() + d.after_us * interval '1 microsecond' else 'infinity' end
from (
  select (select w.ctid from {schema}.outbox_waiting w where w.slot = d.slot and w.seq = d.seq and w.id = d.id) as tid, d.state, d.attempts, d.starts, d.after_us, d.reason
  from unnest($1::smallint[], $2::bigint[], $5::uuid[], $6::text[], $7::int[], $8::int[], $9::bigint[], $10::text[])
    d (slot, seq, id, state, attempts, starts, after_us, reason)
  where d.slot = any (array({fenced}))
) d where w.ctid = d.tid`

	// Three answers in one snapshot: the snapshot itself; the numbers of rows below the floors,
	// where somebody may have committed late (see [horizon]) or $7 demands a look; and the
	// rows above the floors. The look takes one row more than the member has in its hands, so
	// that one that it does not know cannot hide behind those that it knows.
	readFlow = `with seen as materialized (select pg_current_snapshot() as snap),
look as materialized (
  select least($7::bigint,
    (select min(k.low) from unnest($4::text[], $5::bigint[]) k (xid, low), seen where pg_visible_in_snapshot(k.xid::xid8, seen.snap)),
    (select $8::bigint from seen where pg_snapshot_xmax(seen.snap)::text::bigint > $6::bigint + 1)) as low
)
select -1::smallint as slot, coalesce(pg_current_xact_id_if_assigned()::text::bigint, 0) as seq, null::uuid as id, seen.snap::text as destination,
  null::text as aggregatetype, null::bytea as aggregateid, null::text as type, null::bytea as payload, null::bytea as headers, null::timestamptz as created_at, null::tid as tid
from seen
union all
select f.slot, o.seq, null, null, null, null, null, null, null, null, null
from look, unnest($1::smallint[], $2::bigint[], $3::int[]) f (slot, floor, hand)
cross join lateral (
  select o.seq from {schema}.outbox o where o.slot = f.slot and o.seq > look.low and o.seq <= f.floor order by o.seq limit f.hand + 1
) o where look.low is not null
union all
(select o.slot, o.seq, o.id, o.destination, o.aggregatetype, o.aggregateid, o.type, o.payload, o.headers, o.created_at, o.tid
from unnest($1::smallint[], $2::bigint[]) f (slot, floor)
cross join lateral (
  select o.*, o.ctid as tid from {schema}.outbox o where o.slot = f.slot and o.seq > f.floor order by o.seq limit $9
) o limit $10)`

	waitingColumns = `w.slot, w.seq, w.id, w.destination, w.aggregatetype, w.aggregateid, w.type, w.payload, w.headers, w.created_at, w.state, w.attempts, w.starts`

	readDue = `select ` + waitingColumns + `
from unnest($1::smallint[]) f (slot)
cross join lateral (
  select * from {schema}.outbox_waiting w
  where w.slot = f.slot and w.state = 'retry' and w.due <= now() and w.seq <> all ($2::bigint[])
  order by w.due, w.seq limit $3
) w order by w.due, w.seq limit $3`

	readHeld = `select ` + waitingColumns + `
from unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::int[]) f (slot, destination, topic, floor, most)
cross join lateral (
  select * from {schema}.outbox_waiting w
  where w.slot = f.slot and w.destination = f.destination and w.aggregatetype = f.topic and w.state = 'held' and w.seq > f.floor
    and w.seq <> all ($6::bigint[])
  order by w.seq limit f.most
) w`

	readByKey = `select ` + waitingColumns + `
from unnest($1::smallint[], $2::text[], $3::text[], $4::bytea[], $5::int[]) f (slot, destination, topic, key, most)
cross join lateral (
  select * from {schema}.outbox_waiting w
  where w.slot = f.slot and w.destination = f.destination and w.aggregateid = f.key and (f.topic = '' or w.aggregatetype = f.topic)
    and w.seq <> all ($6::bigint[])
  order by w.seq limit f.most
) w`

	backlog = `select w.slot, w.destination, w.aggregatetype, w.aggregateid,
  count(*) filter (where w.state = 'retry'), count(*) filter (where w.state = 'behind'),
  count(*) filter (where w.state = 'held'), count(*) filter (where w.state = 'parked')
from {schema}.outbox_waiting w where w.slot = any ($1::smallint[])
group by w.slot, w.destination, w.aggregatetype, w.aggregateid`
)

// Statements of [member].Hold, in one transaction. Times are written only when a third of
// the lease has passed, so that a relay may look often.
const (
	beat = `insert into {schema}.outbox_relays (name, until) values ($1, now() + $2::bigint * interval '1 microsecond')
on conflict (name) do update set until = excluded.until
where outbox_relays.until < now() + $2::bigint * interval '1 microsecond' * 2 / 3`

	extend = `with mine as (
  select slot from {schema}.outbox_slots
  where owner = $1 and until < now() + $2::bigint * interval '1 microsecond' * 2 / 3
  order by slot for update
)
update {schema}.outbox_slots s set until = now() + $2::bigint * interval '1 microsecond' from mine where s.slot = mine.slot`

	// A slot whose row is locked is left for the next time: its owner is writing with it.
	take = `with free as (
  select slot, clean from {schema}.outbox_slots
  where owner is distinct from $1 and until <= now()
  order by slot
  limit greatest(0, (select ceil({slots}::numeric / greatest(count(*), 1))::bigint from {schema}.outbox_relays where until > now())
    - (select count(*) from {schema}.outbox_slots where owner = $1))
  for update skip locked
)
update {schema}.outbox_slots s
set owner = $1, token = s.token + 1, clean = false, until = now() + $2::bigint * interval '1 microsecond'
from free where s.slot = free.slot
returning s.slot, free.clean`

	ownSlots = `select slot, token, changed, (select count(*) from {schema}.outbox_relays where until > now())
from {schema}.outbox_slots where owner = $1 order by slot`

	releaseSlots = `update {schema}.outbox_slots s set owner = null, until = '-infinity', clean = true
from (
  select s.slot from {schema}.outbox_slots s
  join unnest($1::smallint[], $2::bigint[]) h (slot, token) on h.slot = s.slot and h.token = s.token
  order by s.slot for update of s
) h where s.slot = h.slot`

	leave = `delete from {schema}.outbox_relays where name = $1 or until < now() - interval '1 hour'`
)
