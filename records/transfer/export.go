package transfer

import (
	"time"

	"stint/records"
)

// Export writes the records of some kinds that are in force.
func Export(f *records.File, w *Writer, kinds []records.Kind, now time.Time) error {
	for _, kind := range kinds {
		for e, err := range f.All(kind) {
			if err != nil {
				return err
			}
			r, ok, err := settled(f, e.Record, now)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := w.Write(r); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// settled returns a record without its parts that have ended. ok is false if the whole of it has.
func settled(f *records.File, r records.Record, now time.Time) (_ records.Record, ok bool, err error) {
	switch r := r.(type) {
	case records.Subject:
		r.Next.Settle(&r.Plan, now)
		if r.Next.From.IsZero() && r.PlanAt(now) == "" {
			r.Plan, r.PlanUntil = "", time.Time{}
		}
		return r, true, nil
	case records.Override:
		return r, r.InForce(now), nil
	case records.Ban:
		return r, r.InForce(now), nil
	case records.Grant:
		return r, r.Lasts(now), nil
	case records.APIKey:
		if r.Replaces != (records.APIKey{}).Hash {
			old, err := f.Key(r.Replaces, now)
			if err != nil {
				return nil, false, err
			}
			if old == nil {
				r.Replaces = records.APIKey{}.Hash
			}
		}
		return r, r.InForce(now), nil
	}
	return r, true, nil
}
