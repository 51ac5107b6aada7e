// Package monitoring has the tests of deploy/grafana and deploy/prometheus. They compare each query of
// the dashboard and of the alert rules with the metrics of services and of a gateway that run.
//
// They are in this module because only it can start a gateway, and so that the root module does not
// require Prometheus, whose parser of PromQL reads the queries.
package monitoring
