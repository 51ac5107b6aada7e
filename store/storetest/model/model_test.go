package model_test

import (
	"testing"

	"stint"
	"stint/store/storetest"
	"stint/store/storetest/model"
)

// TestModel: the model passes the suite itself.
func TestModel(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New:       func(testing.TB) stint.Store { return new(model.Store) },
		Backwards: true,
	})
}
