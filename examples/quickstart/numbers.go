package main

import (
	"fmt"
	"strconv"
	"strings"
)

// thousands writes a number with separators: 1,234,567.
func thousands[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// money writes cents as an amount: 1,234.50.
func money(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return sign + thousands(cents/100) + fmt.Sprintf(".%02d", cents%100)
}
