// Package kafkasub consumes Kafka.
package kafkasub
