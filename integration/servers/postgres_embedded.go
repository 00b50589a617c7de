package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// embeddedVersion is the PostgreSQL that is fetched for a machine without one.
const embeddedVersion = embeddedpostgres.V17

// fetchBinaries returns the directory of programs that embedded-postgres fetched, now or earlier, into the user's
// cache. An account that is not to look into that cache gets a copy of them below dir.
func fetchBinaries(dir string, account *account) (string, error) {
	root, err := cached("postgres-"+string(embeddedVersion), unpackBinaries)
	if err != nil {
		return "", fmt.Errorf("%w; fetching them: %w; install PostgreSQL or set DATABASE_URL", errNoBinaries, err)
	}
	if account != nil {
		visible := filepath.Join(dir, "postgresql")
		if err := os.CopyFS(visible, os.DirFS(root)); err != nil {
			return "", err
		}
		root = visible
	}
	return filepath.Join(root, "bin"), nil
}

// unpackBinaries fetches a server's programs into dir.
//
// Only this much of embedded-postgres is of use here: it would start the server itself, not as root and not tied to
// this process. It offers no fetching alone, so it is asked for a cluster whose owner has a name that initdb refuses
// before it does anything: by then the programs are unpacked.
func unpackBinaries(dir string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	unused, err := os.MkdirTemp("", "semel-unused-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unused)
	refused := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedVersion).
		Username("pg_refused").
		Port(uint32(port)).
		BinariesPath(dir).
		RuntimePath(unused).
		Logger(io.Discard))
	err = refused.Start()
	if err == nil { // It cannot be; but should it ever, no server stays behind.
		err = errors.Join(errors.New("a server was started where only its programs were wanted"), refused.Stop())
	}
	if !hasServer(filepath.Join(dir, "bin")) {
		return err
	}
	return nil
}
