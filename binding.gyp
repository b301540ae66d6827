# Two targets: the core, which knows nothing of Node, and the addon around it. Files are found by
# tools/list-sources.mjs, so a new .c file needs no edit here. All of it is plain C.
{
  'target_defaults': {
    'default_configuration': 'Release',
    'include_dirs': ['src'],
    'cflags': [
      '-std=c11', '-O3', '-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-fvisibility=hidden',
    ],
    'xcode_settings': {
      'GCC_C_LANGUAGE_STANDARD': 'c11',
      'GCC_OPTIMIZATION_LEVEL': '3',
      'GCC_SYMBOLS_PRIVATE_EXTERN': 'YES',
    },
  },
  'targets': [
    {
      'target_name': 'core',
      'type': 'static_library',
      'sources': ['<!@(node tools/list-sources.mjs core <(OS))'],
    },
    {
      'target_name': 'millrace',
      'dependencies': ['core'],
      'defines': ['NAPI_VERSION=8', '_GNU_SOURCE'],
      'sources': ['<!@(node tools/list-sources.mjs binding <(OS))'],
    },
  ],
}
