package main

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func TestTable(t *testing.T) {
	t.Parallel()
	right := summary{
		Payments: 6000, Records: 5010, Messages: 3927, Copies: 2937,
		Kills:     map[string]int{roleWorker: 4, roleRelay: 2},
		Bank:      counts{Delivered: 9812, Unheard: 293, Again: 1168, Twice: 2157, Both: 780, Overlapping: 41},
		Receiver:  counts{Again: 201},
		Events:    6000,
		Fates:     map[fate]int{answered: 1998, refused: 92, hung: 40, dropped: 131},
		CopiesVia: map[string]int{viaWebhook: 171, viaKafka: 18, viaNATS: 12},
		Lines: []line{
			{What: "payments booked", Sum: "money on the accounts", Expected: 6000, Found: 6000, Owed: 295483088, Paid: 295483088},
			{What: "receipts counted", Sum: "money in the receipts", Expected: 6000, Found: 6000, Owed: 295483088, Paid: 295483088},
		},
		Took: 18600 * time.Millisecond,
	}
	compareGolden(t, "testdata/right.txt", right)

	naive := right
	naive.Naive = true
	naive.Lines = []line{
		{What: "payments booked", Sum: "money on the accounts", Expected: 6000, Found: 10051, Doubled: 4051, Owed: 295483088, Paid: 494223392, OffAccounts: 64},
		{What: "receipts counted", Sum: "money in the receipts", Expected: 6000, Found: 10400, Doubled: 4400, Owed: 295483088, Paid: 510000000, OffAccounts: 64},
	}
	compareGolden(t, "testdata/naive.txt", naive)
}

func compareGolden(t *testing.T, file string, s summary) {
	t.Helper()
	var got bytes.Buffer
	s.print(&got)
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs (write it with -update):\n%s", file, got.Bytes())
	}
}

func TestNumbersForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) is %q, want %q", n, got, want)
		}
	}
	for cents, want := range map[int64]string{5: "0.05", 295483088: "2,954,830.88", -150: "-1.50"} {
		if got := money(cents); got != want {
			t.Errorf("money(%d) is %q, want %q", cents, got, want)
		}
	}
}
