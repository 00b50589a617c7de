package storetest_test

import (
	"github.com/semel-dev/semel/store"
)

// printLiars lie about fingerprints.
func printLiars() []liar {
	return []liar{
		{"ignores fingerprints", []string{"a mark with another fingerprint", "fingerprint of a rival", "TxMarker compares fingerprints"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.takeFor(store.Mismatched, store.Seen)
		})},
		{"a missing fingerprint is one more", []string{"a mark without a fingerprint", "fingerprints in a large batch"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendMarks(func(m store.Mark) store.Mark {
				if m.Fingerprint.IsZero() {
					m.Fingerprint[0] = 1
				}
				return m
			})
		})},
		{"the first of equal marks is compared for all", []string{"fingerprints of equal marks"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendStatuses(func(marks []store.Mark, statuses []store.Status) {
				for i := range marks {
					for j := range i {
						if marks[i].Key == marks[j].Key && statuses[i] == store.Mismatched {
							statuses[i] = store.Seen
						}
					}
				}
			})
		})},
		{"one fingerprint for a batch", []string{"fingerprints in a large batch"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendStatuses(func(_ []store.Mark, statuses []store.Status) {
				seen := false
				for i := range statuses {
					if seen && statuses[i] == store.Mismatched {
						statuses[i] = store.Seen
					}
					seen = seen || statuses[i] == store.Mismatched
				}
			})
		})},
	}
}
