//go:build !unix

package servers

import "os/exec"

// account is the operating system user that a server runs as; here it is always the user of this process.
type account struct{ name string }

func unprivileged() (*account, error) { return nil, nil }

func (a *account) own(string) error { return nil }

func (a *account) detach(*exec.Cmd) {}
