package servers

import (
	"fmt"
	"strconv"
)

// PostgresOption changes how a Postgres server is started. Options say nothing about a server that the environment
// names.
type PostgresOption interface{ applyPostgres(*postgresConfig) }

type postgresOption func(*postgresConfig)

func (o postgresOption) applyPostgres(c *postgresConfig) { o(c) }

type setting struct{ name, value string }

type postgresConfig struct {
	fsync    bool
	settings []setting // In order: of two for one name the server obeys the later.
}

func newPostgresConfig(opts []PostgresOption) postgresConfig {
	c := postgresConfig{
		fsync: true,
		settings: []setting{
			{"max_connections", "200"},
			{"shared_buffers", "128MB"},
			{"wal_level", "replica"},
			{"max_wal_size", "2GB"},
		},
	}
	for _, o := range opts {
		o.applyPostgres(&c)
	}
	return c
}

// args are the command line arguments of a server in dir on port.
func (c postgresConfig) args(data string, port int) []string {
	all := append([]setting{
		{"listen_addresses", loopback},
		{"port", strconv.Itoa(port)},
		{"unix_socket_directories", ""},
		{"logging_collector", "off"},
		{"log_destination", "stderr"},
	}, c.settings...)
	if !c.fsync {
		all = append(all, setting{"fsync", "off"}, setting{"full_page_writes", "off"})
	}
	args := []string{"-D", data}
	for _, s := range all {
		args = append(args, "-c", s.name+"="+s.value)
	}
	return args
}

// WithFsync says whether the server waits for the disk at each commit. The default is true. Without it tests run
// several times faster and what was committed still survives [Postgres.Crash], because the operating system keeps what
// the server wrote; only a crash of the machine would lose it. Never measure the cost of a commit without fsync.
//
// It deliberately leaves synchronous_commit on, which costs next to nothing without fsync: switched off, a crash of
// the server alone loses commits that it has already confirmed, and a test that counts effects after a crash would
// blame the wrong party.
func WithFsync(on bool) PostgresOption {
	return postgresOption(func(c *postgresConfig) { c.fsync = on })
}

// WithSetting sets a parameter of postgresql.conf, for example WithSetting("log_statement", "all"). It wins over the
// defaults of this package; of two for the same name the later one counts. A name that the server does not know makes
// the start fail with the server's own words.
func WithSetting(name, value string) PostgresOption {
	return postgresOption(func(c *postgresConfig) { c.settings = append(c.settings, setting{name, value}) })
}

// WithMaxConnections sets how many clients may be connected at once. The default is 200.
func WithMaxConnections(n int) PostgresOption {
	return WithSetting("max_connections", fmt.Sprint(n))
}
