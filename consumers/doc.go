// Package consumers decides what is done about a message once its result is known. It
// knows no broker: the packages below it each wrap one client library and all of them ask
// the same [Policy].
package consumers
