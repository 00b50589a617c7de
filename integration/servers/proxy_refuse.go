package servers

// Refuse breaks every connection of the moment and every new one as soon as it is accepted, until [Proxy.Admit]: to
// clients the server is down. Unlike a server that is killed, what it has in memory stays.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refusing = true
	p.mu.Unlock()
	p.CutAll()
}

// Admit ends [Proxy.Refuse].
func (p *Proxy) Admit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = false
}
