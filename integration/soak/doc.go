// Package soak decides whether the library may stand before payments. It puts tens of thousands of
// messages through several groups of consumer processes and two relay processes on real servers, does to
// all of them what happens in years of operation, and counts.
//
// # Who consumes
//
// Every group gets every message and has tables of its own, so each has to come to the same end by
// other means:
//
//	payments   marks; one process handles message by message, one commits batches, one has a
//	           handler of batches and works at REPEATABLE READ.
//	fenced     marks and positions (on Kafka); its positions are set back in the middle
//	placed     positions alone (on Kafka): every record is a message of its own, copies included
//	parking    marks, and keys that wait behind what was given up, handled in parallel by key
//	stored     store-first: one transaction keeps the message, a relay does its work later
//
// # What is done to them
//
// Consumers are killed (SIGKILL) at random moments, alone and all at once, leave in good order and
// join again. Some messages kill the process that handles them. Relays are killed. The broker is
// killed and started again on its data, the database is stopped at once (pg_ctl stop -m immediate) and
// recovers, the network of one process to the broker or to the database is frozen for longer than its clients
// wait and then thaws with all that was under way, connections are cut, COMMITs and the
// answers to them are lost, and the groups are set back to the start of the log in the middle. All of this
// happens to one process of each group at a time, or to all. An operator repairs what was given up and
// runs it again while that goes on.
//
// Meanwhile messages come twice in one batch, again later, at other offsets, in other partitions
// at the same time, and long after they were done; some fail for a while, some for ever, some panic,
// some have no id, and transactions conflict (40001, 40P01) on rows that they share.
//
// # What must be true in the end
//
//   - Every business id has exactly one row in a table without any unique constraint; none is missing.
//     Where positions alone decide, every place of the log has.
//   - The rows of an ordered key came in the order in which its messages were produced.
//   - What all consumers of a group counted together in shared rows is the number of messages.
//   - Every message that cannot be handled is among the dead letters exactly once, and has no effect. So
//     may be one that, by chance, was in a handler when three processes died: it is rightly suspected.
//   - Where keys wait: when all has come to rest, a message either has its effect or is kept, and not
//     both; behind the first message of an ordered key that is kept, nothing has an effect;
//     and what is kept has a key that the library calls parked. Then the operator runs everything again,
//     and the rows are complete and in order as anywhere else.
//   - Nothing is left unacknowledged: the lag is zero.
//   - Every message's outbox event has arrived, of each group, under the one id that follows from the
//     message, in the order of its key.
//   - The faults took place: kills hit running handlers, duplicates of each kind were seen, and so on.
//     A run in which they did not has tested nothing, and fails.
//
// [TestVerdictSees] and [TestVerdictSeesWhatWaits] hold up every kind of damage to the verdict.
// [TestSoakSeesADoubledEffect] and its neighbours run consumers that are wired wrongly (marks or positions
// in a transaction of their own, acknowledged before the commit, no keys beside positions, no parking,
// stored without a key): the verdict must be red.
//
// # How to run it
//
//	go test ./integration/soak                  2,500 messages per broker, each fault once
//	go test -short ./integration/soak           1,000 messages, without frozen networks
//	SEMEL_SOAK_MESSAGES=60000 SEMEL_TEST_KAFKA=apache go test -count=1 -timeout 1h -v ./integration/soak
//	                                            the full size, on an Apache Kafka broker that is killed
//	SEMEL_SOAK_SEED=7 go test ...               the same messages and the same faults in the same order
//
// On two busy cores the default takes less than a minute per broker.
//
// The seed is printed. It fixes what is produced and what is done, not how the processes interleave, so a
// failure may need several runs to come again.
//
// On NATS only the server keeps the order of a key over processes, so the lanes of ordered keys have
// MaxAckPending 1, in the group that parks as well.
//
// kfake keeps its log in memory, so with it the broker's restart is that nobody can reach it for some
// seconds. After it, a member that is no process any more was once seen to keep its
// partitions for minutes; where consumers stall on kfake, all members are made to join again, and the table
// counts a stall. NATS runs in a process of its own with sync_interval "always" and is killed.
//
// # When it fails
//
// The verdict names the ids, what was produced where, and every delivery of them: process, place,
// outcome. The directory with the journals and logs of all processes is kept and named.
package soak
