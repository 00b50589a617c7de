package main

import (
	"fmt"
	"io"
	"strings"
)

// table writes aligned lines: a label, one or two columns of numbers, and a remark.
type table struct{ to io.Writer }

const (
	labelWidth  = 42
	columnWidth = 15
)

func (t *table) section(format string, args ...any) {
	fmt.Fprintf(t.to, "\n  %s\n", fmt.Sprintf(format, args...))
}

func (t *table) number(depth int, label string, n int, remark string) {
	t.line(depth, label, fmt.Sprintf("%*s  %s", columnWidth, thousands(n), remark))
}

func (t *table) row(depth int, label, left, right, remark string) {
	t.line(depth, label, fmt.Sprintf("%*s%*s  %s", columnWidth, left, columnWidth, right, remark))
}

func (t *table) line(depth int, label, rest string) {
	text := fmt.Sprintf("  %-*s%s", labelWidth, strings.Repeat("  ", depth)+label, rest)
	fmt.Fprintln(t.to, strings.TrimRight(text, " "))
}
