package main

import "testing"

func at(via string, partition int, offset, began, ended int64, outcome string) sighting {
	return sighting{place{via, partition, offset}, "p", outcome, began, ended}
}

func TestCountTellsWhereCopiesComeFrom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen []sighting
		want counts
	}{
		"nothing but the first": {
			[]sighting{at("kafka", 0, 1, 0, 1, "applied")},
			counts{Delivered: 1},
		},
		"delivered again after a crash": {
			[]sighting{at("kafka", 0, 1, 0, 1, "applied"), at("kafka", 0, 1, 5, 6, "duplicate")},
			counts{Delivered: 2, Again: 1},
		},
		"rolled back, and delivered again": {
			[]sighting{at("nats", 0, 1, 0, 1, "failed"), at("nats", 0, 1, 5, 6, "applied")},
			counts{Delivered: 2, Undone: 1},
		},
		"produced twice": {
			[]sighting{at("kafka", 0, 1, 0, 1, "applied"), at("kafka", 0, 2, 5, 6, "duplicate")},
			counts{Delivered: 2, Twice: 1},
		},
		"produced twice, and one of them delivered again": {
			[]sighting{at("kafka", 0, 1, 0, 1, "applied"), at("kafka", 0, 2, 5, 6, "duplicate"), at("kafka", 0, 2, 8, 9, "duplicate")},
			counts{Delivered: 3, Twice: 1, Again: 1},
		},
		"over both brokers at the same moment": {
			[]sighting{at("kafka", 0, 1, 0, 4, "applied"), at("nats", 0, 7, 3, 5, "duplicate")},
			counts{Delivered: 2, Both: 1, Overlapping: 1},
		},
		"one after the other in one call": {
			[]sighting{at("nats", 0, 1, 0, 4, "applied"), at("nats", 0, 2, 0, 4, "duplicate")},
			counts{Delivered: 2, Twice: 1},
		},
		"killed between commit and report": {
			[]sighting{at("kafka", 0, 1, 8, 9, "duplicate")},
			counts{Delivered: 1, Unheard: 1, Again: 1},
		},
		"killed between commit and report, with a copy on the other broker": {
			[]sighting{at("nats", 0, 3, 8, 9, "duplicate"), at("kafka", 0, 1, 10, 11, "duplicate")},
			counts{Delivered: 2, Unheard: 1, Again: 1, Both: 1},
		},
		"without a guard": {
			[]sighting{at("kafka", 0, 1, 0, 1, "applied"), at("kafka", 0, 1, 5, 6, "applied"), at("nats", 0, 2, 5, 6, "applied")},
			counts{Delivered: 3, Again: 1, Both: 1},
		},
	} {
		if got := count(map[string][]sighting{"p": test.seen}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
