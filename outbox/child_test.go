package outbox_test

func childMain() {}
