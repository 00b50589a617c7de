package main

import "testing"

func TestReckoningSeesWhatIsLostAndWhatIsDoubled(t *testing.T) {
	t.Parallel()
	payments := []payment{{"a", 1, 100}, {"b", 1, 200}, {"c", 2, 400}}
	for name, test := range map[string]struct {
		have effects
		want line
	}{
		"all is well": {
			effects{map[string]int{"a": 1, "b": 1, "c": 1}, map[int]int64{1: 300, 2: 400, 3: 0}},
			line{Expected: 3, Found: 3, Owed: 700, Paid: 700},
		},
		"one is lost and one is doubled": {
			effects{map[string]int{"a": 3, "c": 1}, map[int]int64{1: 300, 2: 400}},
			line{Expected: 3, Found: 4, Owed: 700, Paid: 700, Lost: 1, Doubled: 2},
		},
		"the sum is right on the wrong accounts": {
			effects{map[string]int{"a": 1, "b": 1, "c": 1}, map[int]int64{1: 400, 2: 300}},
			line{Expected: 3, Found: 3, Owed: 700, Paid: 700, OffAccounts: 2},
		},
	} {
		got := compare("", "", payments, test.have)
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if right := name == "all is well"; got.right() != right {
			t.Errorf("%s: right() is %t", name, got.right())
		}
	}
}
