package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// fakeServer makes a directory that looks like that of a server's programs.
func fakeServer(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, executable(name)), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// hidePostgres takes the PATH and the usual places away until t ends.
func hidePostgres(t *testing.T, places ...string) {
	t.Helper()
	t.Setenv("PATH", "")
	old := packagedBinaries
	packagedBinaries = places
	t.Cleanup(func() { packagedBinaries = old })
}

func TestFindBinariesTakesThePathThenTheNewestPackage(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9.6", "15", "16", "17beta1"} {
		fakeServer(t, filepath.Join(root, version, "bin"))
	}
	if err := os.MkdirAll(filepath.Join(root, "18", "bin"), 0o755); err != nil { // The client only.
		t.Fatal(err)
	}
	hidePostgres(t, filepath.Join(root, "*", "bin"))
	if got, err := findBinaries(t.Context()); err != nil || got != filepath.Join(root, "17beta1", "bin") {
		t.Errorf("without a PATH: %s, error %v; want the newest", got, err)
	}
	path := fakeServer(t, t.TempDir())
	t.Setenv("PATH", t.TempDir()+string(os.PathListSeparator)+path)
	if got, err := findBinaries(t.Context()); err != nil || got != path {
		t.Errorf("with a PATH: %s, error %v; want %s", got, err, path)
	}
	hidePostgres(t)
	if got, err := findBinaries(t.Context()); !errors.Is(err, errNoBinaries) {
		t.Errorf("with neither: %s, error %v; want %v", got, err, errNoBinaries)
	}
}

func TestStartPostgresFetchesItsProgramsWhereThereAreNone(t *testing.T) {
	if os.Getenv("SEMEL_TEST_FETCH") == "" {
		t.Skip("fetches PostgreSQL from the network; run it with SEMEL_TEST_FETCH=1")
	}
	hidePostgres(t)
	p, err := StartPostgres(context.Background(), WithFsync(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
