select perdure.say_unknown(), perdure.reopen_declined()
