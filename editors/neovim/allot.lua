-- ~/.config/nvim/lsp/allot.lua, for Neovim 0.11 and later. In init.lua: vim.lsp.enable('allot')
return {
  cmd = { 'allot', 'lsp' },
  filetypes = { 'yaml' },
  root_markers = { '.git' },
  flags = { debounce_text_changes = 20 }, -- the default waits 150 ms before each check
}
