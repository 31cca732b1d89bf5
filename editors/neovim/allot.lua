-- ~/.config/nvim/lsp/allot.lua, for Neovim 0.11 and later. In init.lua: vim.lsp.enable('allot')
return {
  cmd = { 'allot', 'lsp' }, -- the complete path if the shell that starts Neovim does not find it
  filetypes = { 'yaml' },
  root_markers = { '.git' },
  flags = { debounce_text_changes = 20 }, -- by default, Neovim sends a change after 150 ms
  on_attach = function(client, buffer)
    -- By default, Neovim shows problems only after insert mode, and without their text.
    vim.diagnostic.config({ update_in_insert = true, virtual_text = true })
    vim.lsp.completion.enable(true, client.id, buffer, { autotrigger = true })
  end,
}
