package records

import (
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/index"
)

// Grants is the kind of grants.
const Grants Kind = "grant"

// GrantPriority is the priority of a grant that does not say any.
const GrantPriority = index.GrantPriority

// Grant is units that a subject has beside a limit of its plan, until they are used or the grant ends.
type Grant index.Grant

// ID returns the grant's kind and name, which is its subject and its own ID.
func (g Grant) ID() ID { return ID{Grants, g.Subject + separator + g.Name} }

func (g Grant) end() time.Time { return g.Until }

// Lasts reports whether the grant has not ended at a time. It may not have begun.
func (g *Grant) Lasts(now time.Time) bool { return (*index.Grant)(g).Lasts(now) }

func (g Grant) check(c *checks) (Record, *Error) {
	field, fault := (*index.Grant)(&g).Check(c.now)
	return g, g.ID().fieldFault(field, fault)
}

// readGrants returns the grants of a subject, as they are used.
func (f *File) readGrants(tx *bolt.Tx, subject string) (all []index.Grant, err error) {
	err = eachOf(tx, Grants, subject, func(name, value []byte) error {
		v, err := decode[stored[Grant]](f, name, value)
		v.Record.Why = ""
		all = append(all, index.Grant(v.Record))
		return err
	})
	slices.SortFunc(all, func(a, b index.Grant) int { return index.CompareGrants(&a, &b) })
	return all, err
}

// checkGrants refuses a grant that changes its limit, and a new one of a subject that has the most already.
func (f *File) checkGrants(tx *bolt.Tx, g *Grant, now time.Time) error {
	all, err := f.readGrants(tx, g.Subject)
	if i := slices.IndexFunc(all, func(o index.Grant) bool { return o.Name == g.Name && o.Limit != g.Limit }); i >= 0 {
		return g.ID().fault("limit", "the grant is one of "+all[i].Limit, "give the other limit a grant with another id")
	}
	all = slices.DeleteFunc(all, func(o index.Grant) bool { return !o.Lasts(now) || o.Name == g.Name })
	if err == nil && len(all) >= index.MaxGrants {
		return g.ID().fault("id", fmt.Sprintf("the subject has %d grants already", index.MaxGrants), "change or delete one of them")
	}
	return err
}
