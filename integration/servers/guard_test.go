//go:build unix

package servers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestServersEndWithAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Fields(line)
	dsn, store := said[0], said[1]
	data := query[string](t, connect(t, dsn), "show data_directory")
	if _, err := os.Stat(store); err != nil {
		t.Fatal(err)
	}

	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child was not killed")
	}

	within(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if conn, err := pgx.Connect(ctx, dsn); err == nil {
			return errors.Join(errors.New("postgres still accepts connections"), conn.Close(ctx))
		}
		for _, dir := range []string{data, store} {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is still there (error %v)", dir, err)
			}
		}
		return nil
	})
}
