package kafkapub

// Joined counts the events that wait for a write which an earlier call began.
func (p *Publisher) Joined() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		for _, it := range l.running {
			n += len(it.twins)
		}
	}
	return n
}

// Ended tells whether a call whose write is under way may begin nothing more.
func (p *Publisher) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		for _, it := range l.running {
			if it.call.ended {
				return true
			}
		}
	}
	return false
}
