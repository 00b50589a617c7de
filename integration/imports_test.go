package integration

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/semel-dev/semel"

// picture says what the shipped code of each package may import besides the standard
// library: packages of this module below their path in it, others by a prefix of their path.
// Imports point to store; adapters never import each other; only integration and
// examples see two client libraries.
var picture = map[string][]string{
	"store":           {},
	"store/storetest": {"store"},
	"store/memstore":  {"store"},
	"store/pgstore":   {"store", "store/internal/pgsql", "github.com/jackc/pgx/v5"},
	"store/sqlstore":  {"store", "store/internal/pgsql"},
	// The SQL that both send, as text.
	"store/internal/pgsql": {"store"},

	"dedup":             {"store"},
	"consumers":         {"dedup", "store", "github.com/cenkalti/backoff/v4"},
	"outbox":            {"store", "github.com/cenkalti/backoff/v4"},
	"outbox/outboxtest": {"outbox", "store"},

	"consumers/consumertest": {"consumers", "dedup", "store"},
	// Work that is stored first and done later waits in the queue of an outbox: the machine that
	// keeps order, counts attempts and parks is the same, so it is not written twice.
	"consumers/inbox": {"dedup", "outbox", "store"},

	"consumers/kafkasub":   {"consumers", "dedup", "store", "github.com/segmentio/kafka-go"},
	"consumers/natssub":    {"consumers", "dedup", "store", "github.com/nats-io/nats.go"},
	"consumers/webhooksub": {"consumers", "dedup", "outbox/standardwebhooks", "store"},

	"outbox/kafkapub":   {"outbox", "store", "github.com/segmentio/kafka-go"},
	"outbox/natspub":    {"outbox", "store", "github.com/nats-io/nats.go"},
	"outbox/webhookpub": {"outbox", "outbox/standardwebhooks", "store", "code.dny.dev/ssrf"},
	// The signature scheme of both halves of a webhook, on the standard library alone. It lies with the
	// sender, because consumers import outbox for the inbox already, and outbox imports no consumer.
	"outbox/standardwebhooks": {},
}

// anything marks the folders whose programs may put adapters together.
var anything = []string{"integration", "examples"}

func TestImportsFollowThePicture(t *testing.T) {
	seen := map[string]bool{}
	for dir, imports := range importsByPackage(t) {
		if slices.Contains(anything, topOf(dir)) {
			continue
		}
		allowed, drawn := picture[dir]
		if !drawn {
			t.Errorf("package %s is not in the picture: draw it there, with what it may import", dir)
			continue
		}
		seen[dir] = true
		for imported, file := range imports {
			if !mayImport(allowed, imported) {
				t.Errorf("%s imports %s, which the picture does not let package %s do", file, imported, dir)
			}
		}
	}
	for dir := range picture {
		if !seen[dir] {
			t.Errorf("the picture has a package %s that is not there", dir)
		}
	}
}

// Whoever reads one folder needs those below it and none above: a circle of folders can only be
// understood, changed and split off as a whole, although no package in it imports itself.
func TestFoldersImportOneAnotherOneWay(t *testing.T) {
	below := map[string][]string{}
	for dir, imports := range importsByPackage(t) {
		top := topOf(dir)
		if slices.Contains(anything, top) {
			continue
		}
		for imported := range imports {
			if inside, ours := strings.CutPrefix(imported, module+"/"); ours && topOf(inside) != top {
				below[top] = append(below[top], topOf(inside))
			}
		}
	}
	for _, pair := range [][2]string{{"consumers", "dedup"}, {"consumers", "outbox"}, {"outbox", "store"}} {
		if !slices.Contains(below[pair[0]], pair[1]) {
			t.Errorf("%s is not seen to import %s, so this test sees too little", pair[0], pair[1])
		}
	}
	for top := range below {
		if slices.Contains(allBelow(below, top), top) {
			t.Errorf("%s imports %v, and from there imports lead back to it", top, slices.Compact(slices.Sorted(slices.Values(below[top]))))
		}
	}
}

func topOf(dir string) string {
	top, _, _ := strings.Cut(dir, "/")
	return top
}

// allBelow is everything that imports lead to from a folder.
func allBelow(below map[string][]string, top string) []string {
	var reached []string
	for next := below[top]; len(next) > 0; {
		folder := next[0]
		next = next[1:]
		if !slices.Contains(reached, folder) {
			reached = append(reached, folder)
			next = append(slices.Clone(next), below[folder]...)
		}
	}
	return reached
}

func mayImport(allowed []string, imported string) bool {
	if inside, ours := strings.CutPrefix(imported, module+"/"); ours {
		return slices.Contains(allowed, inside)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(allowed, func(prefix string) bool {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	})
}

// importsByPackage reads every shipped Go file: for each folder what it imports, and a file
// that does.
func importsByPackage(t *testing.T) map[string]map[string]string {
	t.Helper()
	root := ".."
	packages := map[string]map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name != ".." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(rel)
		if packages[dir] == nil {
			packages[dir] = map[string]string{}
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			packages[dir][imported] = path
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}
