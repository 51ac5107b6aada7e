package rulefile

import (
	"stint/internal/strictyaml"
	"stint/rule/action"
	"stint/rule/token"
)

// Verifier implements action.Outside.
func (f *fileCompiler) Verifier(v strictyaml.Value, terms action.TokenTerms) action.Verifier {
	source := token.Read(v, terms.PlainHTTP, f.Open)
	if source == nil {
		return nil
	}
	return token.New(token.Config{Source: source, Issuer: terms.Issuer, Audience: terms.Audience})
}
