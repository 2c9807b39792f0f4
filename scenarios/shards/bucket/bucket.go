// Package bucket keeps shards of sweeps in an S3 bucket: Amazon's, or one of any server that
// speaks its protocol.
//
// Its noun is Place, a bucket and what names in it begin with, as in s3://BUCKET/PREFIX. Who one
// is there, and where "there" is, stands where AWS's own tools look for it: in the environment, or
// in what that names.
//
// An object appears in a bucket when all of it is there; one that was cut on the way is none.
//
// Deliberately missing: the folders of runs, which stay on the machine that made them, for their
// seeds make them again; and to remove anything.
package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"lockpick/harness/files"
	"lockpick/scenarios/shards"
)

// scheme is what the name of a place begins with.
const scheme = "s3://"

// Is says whether a name is meant to be that of a place, not of a folder.
func Is(name string) bool { return strings.HasPrefix(name, scheme) }

// Place is a bucket and what names in it begin with.
type Place struct {
	client         *minio.Client
	server         string // as its user knows it
	bucket, prefix string
}

// Error is what a bucket could not be asked or given, and what to do about it.
type Error struct {
	What   string // verb and object
	Err    error
	Remedy string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.What, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// amazon is the server that is asked if nothing names another.
const amazon = "https://s3.amazonaws.com"

// Open reads the name of a place, and who one is there from the environment. It asks no server of
// S3; where the environment names no credentials it asks the machine's own metadata service, if
// there is one.
func Open(name string, env func(string) string) (*Place, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(name, scheme), "/")
	prefix = strings.TrimSuffix(prefix, "/")
	if err := cmp.Or(s3utils.CheckValidBucketNameStrict(bucket), s3utils.CheckValidObjectNamePrefix(prefix)); err != nil || prefix != "" && path.Clean("/"+prefix) != "/"+prefix {
		return nil, fmt.Errorf("%q names no place in a bucket: %w", name, cmp.Or(err, errors.New("its prefix has empty parts or dots")))
	}
	server := cmp.Or(env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"), amazon)
	at, err := url.Parse(server)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL: %q is no address of a server, as in https://s3.example.org", server)
	}
	region := cmp.Or(env("AWS_REGION"), env("AWS_DEFAULT_REGION"))
	if region == "" && server != amazon { // it is not asked for one, which not all users may
		region = "us-east-1"
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewChainCredentials(sources(env)), Secure: at.Scheme == "https", Region: region})
	if err != nil {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL: %s: %w", server, err)
	}
	return &Place{client: client, server: server, bucket: bucket, prefix: prefix}, nil
}

// sources are where credentials may come from, as AWS's tools look for them.
func sources(env func(string) string) []credentials.Provider {
	all := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if !strings.EqualFold(env("AWS_EC2_METADATA_DISABLED"), "true") {
		// Roles of machines, containers and pods. Elsewhere there is nobody to answer.
		all = append(all, &credentials.IAM{Client: &http.Client{Timeout: 2 * time.Second}})
	}
	return all
}

// String is the place as its user wrote it.
func (p *Place) String() string { return p.of(p.prefix) }

func (p *Place) of(key string) string { return strings.TrimSuffix(scheme+p.bucket+"/"+key, "/") }

// key is that of a shard's file, which lies as in a store.
func (p *Place) key(file string) string {
	return strings.TrimPrefix(p.prefix+"/"+shards.Folder+"/"+file, "/")
}

// Try says whether files can be put there: it begins an upload, and abandons it, so that nothing
// is left. It is better asked before a sweep than told after it.
func (p *Place) Try(ctx context.Context) error {
	if v, err := p.client.GetCreds(); err != nil || v.AccessKeyID == "" {
		return &Error{"write to " + p.String(), errors.New("nothing names credentials"),
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"}
	}
	key, core := p.key("try"), minio.Core{Client: p.client}
	id, err := core.NewMultipartUpload(ctx, p.bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return p.told("write to "+p.String(), err)
	}
	core.AbortMultipartUpload(ctx, p.bucket, key, id) // a server forgets it without that, too
	return nil
}

// Put puts a shard's file there, over the one that has its name, and returns what it is called.
func (p *Place) Put(ctx context.Context, file string) (name string, err error) {
	key := p.key(filepath.Base(file))
	_, err = p.client.FPutObject(ctx, p.bucket, key, file, minio.PutObjectOptions{ContentType: "application/jsonl", SendContentMd5: true})
	return p.of(key), p.told("write "+p.of(key), err)
}

// mostKeys bounds what is looked through for shards: somebody may name a bucket of other things.
const mostKeys = 100_000

// Fetch copies the shards' files that are there, or in any folder below, into a folder here.
func (p *Place) Fetch(ctx context.Context, folder string) (found []shards.File, err error) {
	in, err := files.OpenFolder(folder)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	below := p.prefix
	if below != "" {
		below += "/"
	}
	ctx, end := context.WithCancel(ctx)
	defer end() // of the listing
	n := 0
	for o := range p.client.ListObjects(ctx, p.bucket, minio.ListObjectsOptions{Prefix: below, Recursive: true}) {
		if o.Err != nil {
			return nil, p.told("list "+p.String(), o.Err)
		}
		if n++; n > mostKeys {
			return nil, fmt.Errorf("list %s: it has more than %d objects: name a narrower prefix", p, mostKeys)
		}
		if !shards.IsFile(path.Base(o.Key)) {
			continue
		}
		if len(found) == shards.Most {
			return nil, fmt.Errorf("list %s: it has more than %d shards: name the prefix of one sweep", p, shards.Most)
		}
		local := fmt.Sprintf("%d.jsonl", len(found))
		if err := in.WriteBy(local, func(to io.Writer) error { return p.get(ctx, o, to) }); err != nil {
			return nil, p.told("read "+p.of(o.Key), err)
		}
		found = append(found, shards.File{Path: filepath.Join(folder, local), Name: p.of(o.Key), Alone: true})
	}
	return found, nil
}

// get copies an object, which has to be as long as its server says.
func (p *Place) get(ctx context.Context, o minio.ObjectInfo, to io.Writer) error {
	from, err := p.client.GetObject(ctx, p.bucket, o.Key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer from.Close()
	switch n, err := io.Copy(to, from); {
	case err != nil:
		return err
	case n != o.Size:
		return fmt.Errorf("it has %d bytes, and its bucket tells of %d", n, o.Size)
	}
	return nil
}

// told adds to an error what was to be done, and what to do now.
func (p *Place) told(what string, err error) error {
	if err == nil {
		return nil
	}
	remedy := "see that " + p.server + " is the server (AWS_ENDPOINT_URL), and that it can be reached from here; then try again"
	switch answer := minio.ToErrorResponse(err); {
	case answer.Code == "NoSuchBucket":
		remedy = "make the bucket " + p.bucket + ", or name another"
	case answer.Code == "AccessDenied":
		remedy = "see that the user of these credentials may list, read and write there"
	case answer.Code == "PermanentRedirect", answer.Code == "AuthorizationHeaderMalformed":
		remedy = "set AWS_REGION to the bucket's region"
	case answer.StatusCode >= 400 && answer.StatusCode < 500: // servers have various words for who is not known to them
		remedy = "see that AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN are those of a user at " + p.server
	}
	return &Error{what, err, remedy}
}
