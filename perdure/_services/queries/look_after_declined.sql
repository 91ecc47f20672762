select perdure.note_unknown(), perdure.reopen_declined()
