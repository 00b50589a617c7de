// Package servers starts the real servers that Semel's integration tests and runnable examples need, on loopback
// ports, without Docker and without anything to set up first.
//
// Each server comes in two ways. Start always starts one that belongs to the caller. Open looks at the environment
// first and uses the server named there; only without one does it start its own:
//
//	server          environment      started otherwise
//	OpenPostgres    DATABASE_URL     postgres found on the machine, else fetched once by embedded-postgres
//	OpenNATS        NATS_URL         nats-server inside this process
//	OpenKafka       KAFKA_BROKERS    Apache Kafka on a JVM (SEMEL_TEST_KAFKA=apache), else kfake inside this process
//
// A server named by the environment is never stopped, crashed or restarted by this package: those calls return
// [ErrExternal].
//
// # Who stops what
//
// Whoever starts a server stops it, with its Stop or Close. Servers that run as processes of their own (Postgres,
// Apache Kafka) also end when this process dies without doing so, be it by a panic, os.Exit or SIGKILL: a small shell
// beside each one holds the read end of a pipe whose write end only this process has, kills the server when the pipe
// closes, and removes its directory. That works on every Unix and, unlike Linux's parent death signal, does not depend
// on the operating system thread that started the server. Windows has no such guard: there a server outlives a process
// that died without stopping it.
//
// Started servers accept every client that reaches their loopback port, without a password. They are for tests and
// demonstrations, never for data that matters.
//
// # Apache Kafka
//
// What this project asks of a broker is the list in kafka_test.go: writes with all acknowledgements and each compression,
// reads of one partition, topics made, deleted and made again, a group's join, sync, heartbeat, commit and leave, a
// rebalance with a second member, a stale commit refused, committed offsets read from outside; and, in apache_test.go,
// messages, offsets and the member itself after the broker was killed and started again. With kafka-go v0.4.51 every point of it works on Apache Kafka 3.7.2, 3.9.2,
// 4.0.0, 4.0.2, 4.1.2, 4.2.2, 4.3.1 and 4.4.0, on Java 17. Why, in the versions that the brokers state:
//
//   - kafka-go joins groups with version 2 since v0.4.48 and with version 1 before. Kafka 4.0.0 accepts joins from
//     version 2, which leaves older releases of kafka-go out; 4.0.2 and later accept them from version 0 again.
//   - Kafka 4 has dropped fetch up to version 3, list-offsets 0, create-topics up to 1, delete-topics 0, offset-commit up
//     to 1 and offset-fetch 0. kafka-go uses none of these.
//
// On all these versions, and on kfake, a commit of the old generation is still accepted while its group rebalances, and
// refused once the new generation has begun.
package servers
