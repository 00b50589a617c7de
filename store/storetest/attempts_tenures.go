package storetest

// tenureRules are about who works on a partition.
func tenureRules() []attemptsRule {
	return []attemptsRule{{
		"the first to enter",
		"The first ever to enter a partition of a log for a scope enters in order.",
		func(e *exam, c *attemptsCase) {
			s, other := c.open(e), c.open(e)
			other.scope = other.scopeOf("another consumer")
			s.enters("log", 0, "a", true)
			s.enters("log", 1, "b", true)
			s.enters("Log", 0, "b", true)
			s.enters("log\x00\xff", 0, "b", true)
			other.enters("log", 0, "b", true)
		},
	}, {
		"after one who has left",
		"Whoever enters after one who has left does so in order, and whoever enters after one who has not does not.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			a.enters("log", 0, "a", true)
			a.leave("log", 0, "a")
			b.enters("log", 0, "b", true)
			a.enters("log", 0, "c", false)
			a.enters("log", 0, "d", false)
			a.leave("log", 0, "d")
			b.enters("log", 0, "e", true)
			b.leave("log", 0, "e")
			b.enters("log", 0, "e", true)
			b.enters("log", 0, "f", false)
		},
	}, {
		"one who is still there",
		"An owner that enters again without having left is in order: it has not died, since it is there.",
		func(e *exam, c *attemptsCase) {
			a, b := c.open(e), c.open(e)
			a.enters("log", 0, "a", true)
			a.enters("log", 0, "a", true)
			b.enters("log", 0, "b", false)
			b.enters("log", 0, "b", true)
			// It was away, and b may have died of what it does now.
			a.enters("log", 0, "a", false)
		},
	}, {
		"one who is replaced",
		"Leave by one whom somebody else has replaced, or who never entered, changes nothing.",
		func(e *exam, c *attemptsCase) {
			s := c.open(e)
			s.leave("log", 0, "nobody")
			s.enters("log", 0, "a", true)
			s.leave("log", 0, "nobody")
			s.leave("log", 1, "a")
			s.leave("Log", 0, "a")
			s.enters("log", 0, "b", false)
			s.leave("log", 0, "a")
			s.enters("log", 0, "c", false)
		},
	}}
}
