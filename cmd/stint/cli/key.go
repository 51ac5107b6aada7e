package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"stint/cmd/stint/view"
	"stint/records/apikey"
)

func keysCommand() Command {
	return group("keys", "make, list and revoke API keys of clients",
		`Makes API keys for clients, lists them, and ends them. The service stores only the SHA-256 of a key:
create and replace print the key itself, once.

  stint keys create --subject user=42 --until 365d
  stint keys list --subject user=42
  stint keys replace --overlap 7d 3f9a11c2
  stint keys revoke 3f9a11c2

A key is named by the first digits of its hash, at least 8, as list shows them. --key-file names a
file with the key itself instead, for example one that was found in a log; - is standard input.
A replaced key stays valid for --overlap beside the new one, so that its owner can change over.
`+untilText+adminTextOf("write; read for list"),
		verb{"create", "makes a key", runKeyCreate, new(keyOptions).createFlags},
		verb{"list", "lists keys", runKeyList, new(listOptions).subjectFlags},
		verb{"revoke", "ends a key now", runKeyRevoke, new(keyOptions).revokeFlags},
		verb{"replace", "makes a key that replaces another", runKeyReplace, new(keyOptions).replaceFlags},
	)
}

// keyOptions are the flags of stint keys.
type keyOptions struct {
	whyOptions
	subject, prefix, until, overlap, file string
}

// newFlags are the flags of a command that makes a key.
func (o *keyOptions) newFlags(c *adminCall, name string, more ...textFlag) *pflag.FlagSet {
	return c.textFlags(name, append([]textFlag{
		o.reason(),
		{&o.prefix, "prefix", "`PREFIX` of the key, which says whose key it is (default stint)"},
		{&o.until, "until", "`TIME` when the key expires (default: never)"},
	}, more...)...)
}

func (o *keyOptions) createFlags(c *adminCall, name string) *pflag.FlagSet {
	return o.newFlags(c, name, textFlag{&o.subject, "subject", "`KEY=VALUE` of the client that the key identifies"})
}

func (o *keyOptions) replaceFlags(c *adminCall, name string) *pflag.FlagSet {
	return o.newFlags(c, name,
		textFlag{&o.overlap, "overlap", "`DURATION` for which the old key stays valid (default 24h)"},
		textFlag{&o.file, "key-file", "`FILE` with the old key, - for standard input"})
}

func (o *keyOptions) revokeFlags(c *adminCall, name string) *pflag.FlagSet {
	return c.textFlags(name, o.reason(), textFlag{&o.file, "key-file", "`FILE` with the key, - for standard input"})
}

// hash returns the hash of the key that the arguments name.
func (o *keyOptions) hash(s Streams, flags *pflag.FlagSet) (string, error) {
	const example = "name it by the first 8 digits of its hash, as stint keys list shows them"
	switch {
	case o.file == "" && flags.NArg() != 1, o.file != "" && flags.NArg() > 0:
		return "", Usage(flags.Name()+" takes one key", example+", or give --key-file FILE")
	case o.file == "":
		if _, err := apikey.Parse(flags.Arg(0)); err == nil {
			return "", Usage("the key itself is an argument, where other users of this machine can read it", "give --key-file, or "+example)
		}
		return flags.Arg(0), nil
	}
	text, err := s.read(o.file, 4<<10)
	if err != nil {
		return "", Refuse("cannot read the key: "+err.Error(), "name a file with the key")
	}
	key, err := apikey.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return "", Refuse(err.Error(), "the file must have one key and nothing else")
	}
	return key.Hash().String(), nil
}

// printKey prints a new key.
func printKey(c *adminCall, s Streams, text []byte) error {
	var r view.Record
	return c.show(s.Out, text, &r, r.PrintKey)
}

func runKeyCreate(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o keyOptions
	if err := prepare(o.createFlags(&c, "keys create"), args, 0, "", ""); err != nil {
		return err
	}
	if o.subject == "" {
		return Usage("--subject is missing", "write for example stint keys create --subject user=42")
	}
	text, err := c.change(ctx, http.MethodPost, "/v1/keys", o.body("subject", o.subject), "")
	if err != nil {
		return err
	}
	return printKey(&c, s, text)
}

// body returns the body of a request for a new key, with one more field.
func (o *keyOptions) body(field, value string) map[string]string {
	body := map[string]string{}
	for name, given := range map[string]string{"prefix": o.prefix, "until": o.until, "why": o.why, field: value} {
		if given != "" {
			body[name] = given
		}
	}
	return body
}

func runKeyReplace(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o keyOptions
	flags := o.replaceFlags(&c, "keys replace")
	if err := Parse(flags, args); err != nil {
		return err
	}
	hash, err := o.hash(s, flags)
	if err != nil {
		return err
	}
	text, err := c.change(ctx, http.MethodPost, "/v1/keys/"+url.PathEscape(hash)+"/replace", o.body("overlap", o.overlap), "")
	if err != nil {
		return err
	}
	return printKey(&c, s, text)
}

func runKeyRevoke(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o keyOptions
	flags := o.revokeFlags(&c, "keys revoke")
	if err := Parse(flags, args); err != nil {
		return err
	}
	hash, err := o.hash(s, flags)
	if err != nil {
		return err
	}
	if _, err := c.change(ctx, http.MethodPost, "/v1/keys/"+url.PathEscape(hash)+"/revoke", nil, o.why); err != nil {
		return err
	}
	return c.done(s.Out, "revoked: "+hash)
}

func runKeyList(ctx context.Context, s Streams, args []string) error {
	var c adminCall
	var o listOptions
	if err := prepare(o.subjectFlags(&c, "keys list"), args, 0, "", ""); err != nil {
		return err
	}
	return o.list(ctx, s, &c, "/v1/keys", view.Keys)
}
