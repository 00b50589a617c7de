package storetest

import "slices"

// Sentences returns every rule's name and sentence, for the tests of the exam itself.
func Sentences[TTx any]() map[string]string {
	sentences := make(map[string]string)
	collect(sentences, slices.Concat(markRules[TTx](), scopeRules[TTx](), keyRules[TTx](), rivalRules[TTx](), unitRules[TTx](),
		contextRules[TTx](), crowdRules[TTx](), busyRules[TTx](), txMarkerRules[TTx](), txMarkerBusyRules[TTx](), printRules[TTx](), txPrintRules[TTx]()))
	collect(sentences, slices.Concat(claimRules(), resultRules(), expiryRules(), fenceRules()))
	collect(sentences, slices.Concat(buryRules[TTx](), letterRules[TTx](), listRules[TTx](), failRules[TTx](), parkRules[TTx](),
		discardRules[TTx](), reviveRules[TTx](), reviveRivalRules[TTx](), reviveBusyRules[TTx](), parkCrowdRules[TTx]()))
	collect(sentences, slices.Concat(positionRules[TTx](), restartRules[TTx](), positionLossRules[TTx](), positionRivalRules[TTx](), positionBusyRules[TTx](), positionCrowdRules[TTx](), positionActRules[TTx](),
		positionOnlyRules[TTx](), positionAndKeyRules[TTx](), positionLetterRules[TTx]()))
	collect(sentences, slices.Concat(countRules(), tenureRules()))
	collect(sentences, slices.Concat(removalRules[TTx](), lateRules[TTx](), txLateRules[TTx]()))
	return sentences
}

func collect[Place any](into map[string]string, rules []rule[Place]) {
	for _, r := range rules {
		if _, twice := into[r.name]; twice {
			panic("two rules are called " + r.name)
		}
		into[r.name] = r.says
	}
}
