package servers

import (
	"errors"
	"os"
	"path/filepath"
)

// cached returns the directory semel/NAME of the user's cache and, if there is none yet, lets fill make its content.
// Several processes may do so at the same time: each fills one of its own, the first to finish is kept, and nobody sees
// one that is half full. What a process leaves that dies while it fills is never taken for the result.
func cached(name string, fill func(dir string) error) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "semel")
	dir = filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "unfinished-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	content := filepath.Join(work, name)
	if err := os.Mkdir(content, 0o755); err != nil {
		return "", err
	}
	if err := fill(content); err != nil {
		return "", err
	}
	if err := os.Rename(content, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr != nil { // Otherwise another process was first.
			return "", err
		}
	}
	return dir, nil
}
