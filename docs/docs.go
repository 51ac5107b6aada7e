// Package docs holds the documents that the service itself hands out.
package docs

import _ "embed"

// OpenAPI is the description of the HTTP and admin endpoints, docs/openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
