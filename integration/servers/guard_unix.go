//go:build unix

package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// guardScript outlives this process by a moment. Each line it reads is the process id to kill should the input end, or
// 0 for none. It ignores the signals of a terminal, which reach this process first and may be what ends it.
const guardScript = `
trap '' HUP INT TERM
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
	kill -s "$1" "$pid" 2>/dev/null
	tries=0
	while [ "$tries" -lt 10 ] && kill -0 "$pid" 2>/dev/null; do tries=$((tries + 1)); sleep 1; done
	kill -s KILL "$pid" 2>/dev/null
fi
rm -rf -- "$2"
`

// guard ends a server and removes its directory after this process has died without doing so.
type guard struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// startGuard starts a guard that watches nothing yet. It sends the server the named signal ("QUIT") first and KILL ten
// seconds later.
func startGuard(signal, dir string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", signal, dir)
	cmd.Dir = "/" // Never a directory that somebody wants to remove.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &guard{cmd: cmd, input: input}, nil
}

// watch names the process to kill from now on; 0 means none, once a server is gone and its id may be given to another.
func (g *guard) watch(pid int) error {
	if _, err := fmt.Fprintln(g.input, pid); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// close dismisses the guard, which kills what it watches and removes the directory, and waits for it.
func (g *guard) close() error {
	if err := g.input.Close(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}
