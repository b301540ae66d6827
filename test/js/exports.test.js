'use strict'
// CommonJS, ESM and types export the same names, and the ESM names are the CommonJS objects.

const { test } = require('node:test')
const assert = require('node:assert')
const fs = require('node:fs')
const path = require('node:path')
const ts = require('typescript')
const millrace = require('../..')
const { CODES } = require('../../lib/errors')

const NAMES = ['MillraceError', 'bus', 'header', 'launch', 'metrics', 'param', 'probe', 'query', 'reply', 'self', 'serve', 'template', 'version']
const LIB = path.join(__dirname, '..', '..', 'lib')

// The values (not the types) that a declaration file exports.
function declared (file) {
  const source = ts.createSourceFile(file, fs.readFileSync(path.join(LIB, file), 'utf8'), ts.ScriptTarget.Latest, true)
  const names = new Set()
  ts.forEachChild(source, (node) => {
    if (ts.isExportDeclaration(node) && node.exportClause !== undefined && !node.isTypeOnly) {
      node.exportClause.elements.filter((each) => !each.isTypeOnly).forEach((each) => names.add(each.name.text))
    }
    const isExported = ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    if (!isExported) return
    if (ts.isVariableStatement(node)) node.declarationList.declarations.forEach((each) => names.add(each.name.text))
    else if (ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node)) names.add(node.name.text)
  })
  return [...names].sort()
}

test('CommonJS exports these names', () => {
  assert.deepStrictEqual(Object.keys(millrace).sort(), NAMES)
})

test('ESM exports the same, and the same objects', async () => {
  const esm = await import('../../lib/index.mjs')
  assert.deepStrictEqual(Object.keys(esm).sort(), NAMES)
  for (const name of NAMES) assert.strictEqual(esm[name], millrace[name], name)
})

test('the CommonJS file imported as ESM shows the same names', async () => {
  const esm = await import('../../lib/index.js')
  assert.deepStrictEqual(Object.keys(esm).filter((name) => name !== 'default' && name !== 'module.exports').sort(), NAMES)
})

test('the package by its own name, both ways', async () => {
  assert.strictEqual(require('millrace'), millrace)
  assert.strictEqual((await import('millrace')).serve, millrace.serve)
})

test('the types declare the same', () => {
  assert.deepStrictEqual(declared('index.d.ts'), NAMES)
  assert.deepStrictEqual(declared('index.d.mts'), NAMES)
})

// The types that a declaration file exports.
function declaredTypes (file) {
  const source = ts.createSourceFile(file, fs.readFileSync(path.join(LIB, file), 'utf8'), ts.ScriptTarget.Latest, true)
  const names = new Set()
  ts.forEachChild(source, (node) => {
    if (ts.isExportDeclaration(node) && node.isTypeOnly) node.exportClause.elements.forEach((each) => names.add(each.name.text))
    const isExported = ts.canHaveModifiers(node) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    if (isExported && (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node))) names.add(node.name.text)
  })
  return [...names].sort()
}

test('both declaration files export the same types', () => {
  const names = declaredTypes('index.d.ts')
  assert.ok(names.includes('ServeOptions') && names.includes('EventStream'))
  assert.deepStrictEqual(declaredTypes('index.d.mts'), names)
})

test('the types list every error code', () => {
  const text = fs.readFileSync(path.join(LIB, 'index.d.ts'), 'utf8')
  const listed = new Set(text.match(/'ERR_MILLRACE_\w+'/g).map((quoted) => quoted.slice(1, -1)))
  assert.deepStrictEqual([...listed].sort(), [...CODES].sort())
})

test('every code in lib/ is in the table', () => {
  for (const file of fs.readdirSync(LIB).filter((name) => name.endsWith('.js'))) {
    for (const code of fs.readFileSync(path.join(LIB, file), 'utf8').match(/ERR_MILLRACE_\w+/g) ?? []) {
      assert.ok(CODES.includes(code), `${file}: ${code}`)
    }
  }
})

test('the version is the package\'s', () => {
  assert.strictEqual(millrace.version, require('../../package.json').version)
})
