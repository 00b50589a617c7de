package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// errNoBinaries says that this machine has no PostgreSQL server.
var errNoBinaries = errors.New("no initdb and postgres in PATH, in the usual places, or where pg_config points")

// packagedBinaries are where packages put a server without putting it in the PATH: Debian and Ubuntu, Red Hat, Alpine,
// Homebrew on either kind of Mac, the installers for macOS and Windows.
var packagedBinaries = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/Library/PostgreSQL/*/bin",
	`C:\Program Files\PostgreSQL\*\bin`,
}

// findBinaries returns the directory of a server's programs: the first of the PATH, else the newest packaged one, else
// the one that pg_config tells.
func findBinaries(ctx context.Context) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && hasServer(dir) {
			return dir, nil
		}
	}
	var found []string
	for _, pattern := range packagedBinaries {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("%s: %w", pattern, err)
		}
		for _, dir := range dirs {
			if hasServer(dir) {
				found = append(found, dir)
			}
		}
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(versionIn(a), versionIn(b)) }), nil
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		if dir := strings.TrimSpace(string(out)); hasServer(dir) {
			return dir, nil
		}
	}
	return "", errNoBinaries
}

// hasServer asks for initdb too: a machine with only the client has neither.
func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, executable(name)))
		if err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

var firstNumber = regexp.MustCompile(`\d+(\.\d+)?`)

// versionIn is the version number in the name of a package's directory, 0 without one.
func versionIn(dir string) float64 {
	if filepath.Base(dir) == "bin" {
		dir = filepath.Dir(dir)
	}
	v, err := strconv.ParseFloat(firstNumber.FindString(filepath.Base(dir)), 64)
	if err != nil {
		return 0
	}
	return v
}
