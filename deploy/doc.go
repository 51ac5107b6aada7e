// Package deploy has what installs Stint on a cluster and on a machine: a Helm chart, plain manifests,
// dashboards and alerts. It has tests and no code.
package deploy
