package main

import (
	"os"
	"strings"
	"testing"
)

// What a reader copies from the README must be what compiles here.
func TestREADMEShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"main.go", "book.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "```go\n"+string(source)+"```\n") {
			t.Errorf("README.md does not show examples/payments/%s as it is", file)
		}
	}
}
