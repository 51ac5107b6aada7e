package system

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
)

// A file in blocks has a head, then blocks:
//
//	block   length of the content in 8 bytes (little-endian), content, SHA-256 of the file from its first
//	        byte to the end of this content
//
// So a reader checks a block before it parses it, and no change, omission, repetition or other order passes.

// BlockWriter writes a head and blocks. It keeps the first error and writes nothing after it.
type BlockWriter struct {
	w   io.Writer
	sum hash.Hash
	err error
}

// NewBlockWriter writes the head to w.
func NewBlockWriter(w io.Writer, head []byte) *BlockWriter {
	b := &BlockWriter{w: w, sum: sha256.New()}
	b.write(head)
	return b
}

// write writes bytes and adds them to the checksum.
func (b *BlockWriter) write(bytes []byte) {
	if b.err == nil {
		b.sum.Write(bytes)
		_, b.err = b.w.Write(bytes)
	}
}

// Write writes a block.
func (b *BlockWriter) Write(block []byte) {
	b.write(binary.LittleEndian.AppendUint64(nil, uint64(len(block))))
	b.write(block)
	if b.err == nil {
		_, b.err = b.w.Write(b.sum.Sum(nil))
	}
}

// Err returns the first error.
func (b *BlockWriter) Err() error { return b.err }

// BlockError is the error of bytes that no BlockWriter has written.
type BlockError string

// Error returns what is wrong.
func (e BlockError) Error() string { return string(e) }

// BlockReader reads what a BlockWriter wrote. Errors are a BlockError, or those of its reader.
type BlockReader struct {
	Bytes // of the block that Next has read

	r     io.Reader
	sum   hash.Hash
	block bytes.Buffer
}

// NewBlockReader returns a reader of the blocks in r, which begins with a head of that many bytes, and returns
// the head.
func NewBlockReader(r io.Reader, head int) (*BlockReader, []byte, error) {
	b, first := &BlockReader{r: r, sum: sha256.New()}, make([]byte, head)
	if err := b.readFull(first); err != nil {
		return nil, nil, err
	}
	b.sum.Write(first)
	return b, first, nil
}

// Next reads a block and checks its checksum.
func (b *BlockReader) Next() error {
	var length [8]byte
	if err := b.readFull(length[:]); err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint64(length[:]))
	if size <= 0 {
		return BlockError("a block of impossible length")
	}
	b.block.Reset()
	// The buffer grows with the data, so a damaged length cannot exhaust memory.
	if _, err := io.CopyN(&b.block, b.r, size); err != nil {
		return cutOff(err)
	}
	var sum [sha256.Size]byte
	if err := b.readFull(sum[:]); err != nil {
		return err
	}
	b.sum.Write(length[:])
	b.sum.Write(b.block.Bytes())
	if !bytes.Equal(b.sum.Sum(nil), sum[:]) {
		return BlockError("its checksum is wrong")
	}
	b.Left = b.block.Bytes()
	return nil
}

// End returns an error if there are bytes after the last block.
func (b *BlockReader) End() error {
	switch n, err := io.ReadFull(b.r, make([]byte, 1)); {
	case n > 0:
		return BlockError("more bytes after its end")
	case err != io.EOF:
		return err
	}
	return nil
}

// readFull reads len(into) bytes.
func (b *BlockReader) readFull(into []byte) error {
	_, err := io.ReadFull(b.r, into)
	return cutOff(err)
}

// cutOff turns the error about an early end into a BlockError.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return BlockError("it is cut off")
	}
	return err
}

// Bytes are bytes from which values are read in order.
type Bytes struct{ Left []byte }

// Byte returns the next byte, 0 if there is none.
func (b *Bytes) Byte() byte {
	if len(b.Left) == 0 {
		return 0
	}
	return b.Cut(1)[0]
}

// Uint64 returns the next eight bytes as a number. The caller checks that they are there.
func (b *Bytes) Uint64() uint64 { return binary.LittleEndian.Uint64(b.Cut(8)) }

// Cut returns the next n bytes. The caller checks that they are there.
func (b *Bytes) Cut(n int) []byte {
	first := b.Left[:n]
	b.Left = b.Left[n:]
	return first
}

// Text returns the next text, which follows its length; false if it is cut.
func (b *Bytes) Text() ([]byte, bool) {
	length, ok := b.Uvarint()
	if !ok || length > uint64(len(b.Left)) {
		return nil, false
	}
	return b.Cut(int(length)), true
}

// Uvarint returns the next number; false if it is cut.
func (b *Bytes) Uvarint() (uint64, bool) {
	v, n := binary.Uvarint(b.Left)
	if n <= 0 {
		return 0, false
	}
	b.Left = b.Left[n:]
	return v, true
}
