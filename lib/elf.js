'use strict'
// What a Linux binary says about itself, read without loading it: dlopen() of a file that was cut
// short can end the process by SIGBUS, and its messages about foreign files say little.

const fs = require('node:fs')

const MACHINES = { x64: 62, arm64: 183, ia32: 3, arm: 40, ppc64: 21, s390x: 22, riscv64: 243, loong64: 258 }
const PT_LOAD = 1
const PT_DYNAMIC = 2
const PT_INTERP = 3
const DT_NEEDED = 1
const DT_STRTAB = 5
const TABLE_MAX = 1 << 20 // a sane program header table or dynamic section is far below

function readAt (fd, at, length) {
  const bytes = Buffer.alloc(length)
  const got = fs.readSync(fd, bytes, 0, length, at)
  if (got !== length) throw new Error('the file is cut short')
  return bytes
}

// Readers for either class and byte order.
function readersOf (ident) {
  const isWide = ident[4] === 2
  const isLittle = ident[5] === 1
  const u16 = (b, at) => isLittle ? b.readUInt16LE(at) : b.readUInt16BE(at)
  const u32 = (b, at) => isLittle ? b.readUInt32LE(at) : b.readUInt32BE(at)
  const wide = (b, at) => Number(isLittle ? b.readBigUInt64LE(at) : b.readBigUInt64BE(at))
  return { isWide, isLittle, u16, u32, word: isWide ? wide : u32 }
}

function headerOf (fd, size) {
  if (size < 52) throw new Error('the file is cut short')
  const head = readAt(fd, 0, Math.min(size, 64))
  if (head.readUInt32BE(0) !== 0x7f454c46) throw new Error('it is not an ELF file')
  const r = readersOf(head)
  if (r.isWide && size < 64) throw new Error('the file is cut short')
  const at = r.isWide
    ? { phoff: 32, shoff: 40, phentsize: 54, phnum: 56, shentsize: 58, shnum: 60 }
    : { phoff: 28, shoff: 32, phentsize: 42, phnum: 44, shentsize: 46, shnum: 48 }
  return {
    r,
    machine: r.u16(head, 18),
    programs: { off: r.word(head, at.phoff), size: r.u16(head, at.phentsize), count: r.u16(head, at.phnum) },
    sections: { off: r.word(head, at.shoff), size: r.u16(head, at.shentsize), count: r.u16(head, at.shnum) }
  }
}

function isInside ({ off, size, count }, fileSize) {
  return off + size * count <= fileSize
}

function segmentsOf (fd, { r, programs: { off, size, count } }) {
  const at = r.isWide ? { offset: 8, vaddr: 16, filesz: 32 } : { offset: 4, vaddr: 8, filesz: 16 }
  const least = at.filesz + (r.isWide ? 8 : 4)
  if (size < least || size * count > TABLE_MAX) throw new Error('its program headers make no sense')
  const table = readAt(fd, off, size * count)
  return Array.from({ length: count }, (_, i) => {
    const from = i * size
    return {
      type: r.u32(table, from),
      offset: r.word(table, from + at.offset),
      vaddr: r.word(table, from + at.vaddr),
      filesz: r.word(table, from + at.filesz)
    }
  })
}

function textAt (fd, at, max = 256) {
  const bytes = Buffer.alloc(max)
  const got = fs.readSync(fd, bytes, 0, max, at)
  const end = bytes.indexOf(0)
  return bytes.toString('latin1', 0, end < 0 ? got : Math.min(end, got))
}

// The libraries that the file asks for.
function neededOf (fd, r, segments) {
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC)
  if (dynamic === undefined || dynamic.filesz > TABLE_MAX) return []
  const table = readAt(fd, dynamic.offset, dynamic.filesz)
  const step = r.isWide ? 8 : 4
  const needed = []
  let strings = 0
  for (let at = 0; at + 2 * step <= table.length; at += 2 * step) {
    const tag = r.word(table, at)
    if (tag === DT_NEEDED) needed.push(r.word(table, at + step))
    if (tag === DT_STRTAB) strings = r.word(table, at + step)
  }
  const home = segments.find(({ type, vaddr, filesz }) => type === PT_LOAD && strings >= vaddr && strings < vaddr + filesz)
  return home === undefined ? [] : needed.map((off) => textAt(fd, strings - home.vaddr + home.offset + off))
}

function libcOf (names) {
  if (names.some((name) => name.includes('musl'))) return 'musl'
  return names.some((name) => /^libc\.so\.6$|ld-linux/.test(name)) ? 'glibc' : null
}

// Reads a file and gives { machine, isLittle, interpreter, needed, libc }; throws an Error with the
// reason when the file cannot be loaded by anybody.
function readElf (path) {
  const fd = fs.openSync(path, 'r')
  try {
    const { size } = fs.fstatSync(fd)
    const head = headerOf(fd, size)
    const segments = isInside(head.programs, size) ? segmentsOf(fd, head) : null
    const isWhole = segments !== null && isInside(head.sections, size) &&
      segments.every(({ offset, filesz }) => offset + filesz <= size)
    if (!isWhole) throw new Error('the file is cut short')
    const interp = segments.find(({ type }) => type === PT_INTERP)
    const interpreter = interp === undefined ? null : textAt(fd, interp.offset)
    const needed = neededOf(fd, head.r, segments)
    const libc = libcOf(interpreter === null ? needed : [interpreter, ...needed])
    return { machine: head.machine, isLittle: head.r.isLittle, interpreter, needed, libc }
  } finally {
    fs.closeSync(fd)
  }
}

// The C library that this process runs on: 'glibc', 'musl', or null when it cannot be told.
function ownLibc () {
  if (process.platform !== 'linux') return null
  try {
    return readElf(process.execPath).libc
  } catch {
    return null
  }
}

// Why this machine cannot load the file, or null when nothing speaks against it.
function elfFault (path) {
  if (process.platform !== 'linux') return null
  let elf
  try {
    elf = readElf(path)
  } catch (err) {
    return `${err.message}; build or download it again`
  }
  if (MACHINES[process.arch] !== undefined && elf.machine !== MACHINES[process.arch]) {
    const arch = Object.keys(MACHINES).find((name) => MACHINES[name] === elf.machine)
    return `it is built for another processor (${arch ?? `ELF machine ${elf.machine}`}), this one is ${process.arch}`
  }
  const libc = ownLibc()
  if (elf.libc !== null && libc !== null && elf.libc !== libc) return `it is built for ${elf.libc}, this Node runs on ${libc}`
  return null
}

exports.elfFault = elfFault
exports.ownLibc = ownLibc
