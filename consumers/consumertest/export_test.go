package consumertest

// Sentences returns every rule's name and sentence, for the tests of the exam itself.
func Sentences() map[string]string {
	sentences := map[string]string{}
	for _, r := range rules() {
		if _, twice := sentences[r.name]; twice {
			panic("two rules are called " + r.name)
		}
		sentences[r.name] = r.says
	}
	return sentences
}
